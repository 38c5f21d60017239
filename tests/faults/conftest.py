"""What is done here is shared with the processes that are made to fail."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
