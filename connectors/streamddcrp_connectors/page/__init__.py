"""The live page: what a run finds, in a browser, as it happens.

observer.py   in the process of the run: hands batches over, never waits
process.py    the page's own process: reads them and serves
frames.py     messages between the two, and to browsers
pyramid.py    bounded history of a stream, finer for what is recent
regimes.py    what is known of each label     words.py   the same of stories of texts
volumes.py    how many rows each label had    feed.py    events and alarms
streams.py    all of that for each key        kept.py    history stored across restarts
access.py     who may see it                  server.py  hub.py   tornado
static/       the page itself: HTML, CSS and modules of JavaScript, no build step
"""
