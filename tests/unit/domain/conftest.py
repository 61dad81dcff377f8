"""Property tests here are about results; `test_long_texts.py` is about time."""

from hypothesis import settings

settings.register_profile("domain", deadline=None)
settings.load_profile("domain")
