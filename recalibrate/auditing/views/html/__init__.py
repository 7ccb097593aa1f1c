"""The report as HTML: a page that needs no network, and a fragment for notebooks."""

from recalibrate.auditing.views.html.document import fragment, page

__all__ = ["fragment", "page"]
