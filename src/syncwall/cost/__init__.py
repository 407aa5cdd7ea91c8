"""How long one operation or collective takes on a machine; the first place where seconds appear.

Holds `Prices`, which prices any operation of `work`. Communication is behind the small interface
`Network`, so that a simulation of flows can answer where there is no closed form.
"""
