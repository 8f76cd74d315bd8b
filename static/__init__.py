"""Style sheets and scripts of the page, read as package data.

`pages/` has one module for each view; what they share is in `base/` (requests, elements, terms), `query/`,
`charts/`, `editor/` and `feeds/`; `vendor/` is other people's work, with its licences.
"""
