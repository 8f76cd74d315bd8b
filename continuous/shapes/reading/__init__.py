"""Reading of shapes graphs: triples to shapes, with the syntax rules of SHACL (appendix A of SHACL 2017)."""
