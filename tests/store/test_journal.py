"""Records of the journal that are no inputs of streams."""

from pathlib import Path

from quadrill.store.logs.journal import Journal


def test_members_of_a_record_are_read_back_as_they_were_noted(tmp_path: Path) -> None:
    members = {
        "name": "né\u2028",
        "at": -(2**62),
        "large": 2**70,
        "share": 0.1,
        "nothing": None,
        "list": [[1]],
    }
    journal = Journal.open(tmp_path, sync="off")
    numbers = [journal.note("state", members), journal.note("state", {"places": {0: [1, 2]}})]
    journal.close()
    journal = Journal.open(tmp_path, sync="off")
    found = list(journal.read())
    journal.close()
    assert [each.number for each in found] == numbers
    assert [each.kind for each in found] == ["state", "state"]
    assert [each.members for each in found] == [members, {"places": {"0": [1, 2]}}]
