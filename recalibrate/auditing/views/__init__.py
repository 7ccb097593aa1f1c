"""A report as text, JSON, figures and one HTML page; views only read the records."""
