"""Adapters from model frameworks to `recalibrate.scores.Base`, one module per framework.

Each is registered as an entry point of the group ``recalibrate.adapters`` under the root module
name of its framework, and loaded only when a model of that framework arrives. Importing this
package imports none of them.
"""
