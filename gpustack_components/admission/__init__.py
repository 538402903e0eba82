"""Every refusal a manifest can meet before anything is applied: the rules, and the review that runs them.

`admission.review` is the door; `admission.registry` lists every rule; each subject has a module.
"""
