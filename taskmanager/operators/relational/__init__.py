"""The operators of compiled plans: batches of rows with their kinds in, batches out (``tidegate.functions.sql.changelog``)."""
