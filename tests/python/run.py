"""Runs the tests of one file with pytest. Exit code 77, which ctest takes for "skipped", where something they need is not installed.

usage: run.py FILE
"""

import sys

try:
    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401
    import pytest

    import samebits  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

code = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
sys.exit(77 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code)
