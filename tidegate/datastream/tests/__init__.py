"""The test helpers that PyFlink's own tests import (``pyflink.datastream.tests``)."""
