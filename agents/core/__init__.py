"""What the algorithms share: options, policy, rollouts, values, losses, reporting."""
