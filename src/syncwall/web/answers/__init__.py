"""What pages show, one module a page: functions from what was asked to plain data.

They run in the processes of `workers`; none of them knows of requests or of HTML.
"""
