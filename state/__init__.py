"""What is true: values, events and rules. Pure, except the event store."""
