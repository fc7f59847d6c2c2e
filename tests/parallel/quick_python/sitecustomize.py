"""Python imports this when it starts in the tests: it takes pyspark from where it is installed, not from Spark's zip.

Spark names its zip first, which holds no byte code: each of its Python processes then compiles pyspark again, which
takes a second, and the tests start hundreds of them. The installed pyspark is the same code, of which Python keeps the
byte code. `tests/conftest.py` puts this folder on the path of the processes that tests start.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

others = [entry for entry in sys.path if os.path.basename(entry) != "pyspark.zip"]
if len(others) < len(sys.path) and PathFinder.find_spec("pyspark", others) is not None:
    sys.path[:] = others
