"""Questions to the algebra of one-shot texts: what has to be corrected before Oxigraph evaluates them."""
