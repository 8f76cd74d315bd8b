"""Tests of the HTTP server: reading of requests, slow and hostile clients."""
