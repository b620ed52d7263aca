"""Online Bayesian nonparametric inference on streams.

``from streamddcrp import SeqDDCRP``: points arrive one by one or in batches, with no number of
clusters given; the model says at once and in bounded memory which table each belongs to, whether a
new one began, an old one returned or died, how surprising the point is, and how sure it is.

The public names stand in one table, ``__init__.pyi``. Each is imported when it is first used, so
that importing the package costs next to nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
