"""The web page: Flask, its templates and its login form, behind the pipeline of the front."""
