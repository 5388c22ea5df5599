"""The steps of the schema, and what converts the rows of earlier ones."""
