"""The operators of compiled SQL plans: they take and emit batches of rows with row kinds (``tidegate.functions.sql.changelog``)."""
