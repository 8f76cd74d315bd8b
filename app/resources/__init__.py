"""The resources of the HTTP interface: functions from a request to an answer."""
