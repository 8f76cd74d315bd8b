"""Evaluation of one continuous query by many workers, each of which holds some key groups of the query."""
