"""Where weights lie: the protobuf wire format, files, and views into them."""
