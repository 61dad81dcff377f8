"""Property tests here are about results; other tests are about time."""

from hypothesis import settings

settings.register_profile("agents", deadline=None)
settings.load_profile("agents")
