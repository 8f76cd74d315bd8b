"""The web page: a Flask application with templates and a login form, called by the front."""
