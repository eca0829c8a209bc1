"""HTTP for the REST API: requests, bodies, timeouts, user admission and protection from foreign pages."""
