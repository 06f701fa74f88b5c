"""The values that travel between stages: plan, evidence, verdict, memo. Frozen, slotted, plain; no behaviour."""
