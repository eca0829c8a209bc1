"""The only importer of pyspark: the session, the deployment of a subtask, and the entry point inside the Spark worker."""
