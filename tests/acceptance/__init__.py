"""Black-box tests of the two contracts: what a continuous query means, and the HTTP interface.

Each test names the sentence that it checks; everything goes through a server started as a user starts it.
"""
