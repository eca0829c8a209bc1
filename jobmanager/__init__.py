"""The JobManager process: Dispatcher, ResourceManager with its slot manager, and one JobMaster per job.

It never unpickles user code and never imports pyspark.
"""
