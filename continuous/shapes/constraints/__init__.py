"""The constraint components of SHACL Core, one class each."""
