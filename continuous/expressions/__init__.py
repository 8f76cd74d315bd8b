"""SPARQL expressions (SPARQL 1.1, section 17) over Python values, compiled to Python source."""
