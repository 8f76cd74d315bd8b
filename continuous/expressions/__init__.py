"""SPARQL expressions (section 17) over Python values, compiled to Python source."""
