"""Online Bayesian nonparametric inference on streams.

``from streamddcrp import SeqDDCRP``: points arrive one by one or in batches, with no number of
clusters given. In bounded memory, the model says at once which table each belongs to, whether a new
one began, an old one returned or died, how surprising the point is, and how certain this is.

``__init__.pyi`` lists the public names. Each is imported at its first use, so importing the package
costs next to nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
