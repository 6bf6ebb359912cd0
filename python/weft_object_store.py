"""The former name of weft.store."""
import sys
import warnings

from weft import store

warnings.warn("weft_object_store is now weft.store: from weft import store", DeprecationWarning,
              stacklevel=2)
sys.modules[__name__] = store
