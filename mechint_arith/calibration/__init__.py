"""The sharing verdict's error rate: controls with planted truth, each judged as any other model would be.

`grid` says which controls, `trial` builds and judges one, `scoring` holds verdicts against what was planted,
`table` writes it down. The rule and its thresholds are fixed in `verdict` beforehand; nothing here tunes them.
"""
