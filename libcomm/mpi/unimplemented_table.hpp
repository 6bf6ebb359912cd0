// No include guard: the functions of the standard ABI that are not written yet, sorted. A function
// leaves this table when it gets a body; none may enter it.
WEFT_UNIMPLEMENTED(Close_port)
WEFT_UNIMPLEMENTED(Comm_accept)
WEFT_UNIMPLEMENTED(Comm_connect)
WEFT_UNIMPLEMENTED(Comm_join)
WEFT_UNIMPLEMENTED(Comm_spawn)
WEFT_UNIMPLEMENTED(Comm_spawn_multiple)
WEFT_UNIMPLEMENTED(Lookup_name)
WEFT_UNIMPLEMENTED(Open_port)
WEFT_UNIMPLEMENTED(Publish_name)
WEFT_UNIMPLEMENTED(Unpublish_name)
