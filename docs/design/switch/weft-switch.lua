-- A Wireshark dissector for what hosts and switches that compute say to each other
-- (docs/design/switch-protocol.md), inside RoCEv2 packets and UDP datagrams:
--     wireshark -X lua_script:docs/design/switch/weft-switch.lua docs/design/switch/one-switch.pcap
local weft = Proto("weft", "Weft in-network allreduce")

local kinds = {
  "query", "query_reply", "notify", "notify_reply", "kill", "kill_reply", "renew", "data",
  "result", "wait", "refuse", "recover", "recover_reply", "fetch", "fetch_reply", "status",
  "status_reply",
}
local answers = {
  [0] = "ok", "pending", "no group", "table full", "conflict", "unsupported", "mismatch",
  "out of step", "parent silent", "bad format", "has", "lacks",
}
local elements = {
  [0] = "none", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "bf16",
  "float_int", "double_int", "long_int", "two_int", "short_int", "fixed",
}
local operations = {
  [0] = "none", "max", "min", "sum", "prod", "land", "band", "lor", "bor", "lxor", "bxor", "minloc",
  "maxloc",
}

local f = {
  magic = ProtoField.uint16("weft.magic", "Magic", base.HEX),
  version = ProtoField.uint8("weft.version", "Version"),
  kind = ProtoField.uint8("weft.kind", "Kind", base.DEC, kinds),
  group = ProtoField.uint32("weft.group", "Group", base.HEX),
  key = ProtoField.uint64("weft.key", "Key", base.HEX),
  ticket = ProtoField.uint32("weft.ticket", "Ticket", base.HEX),
  epoch = ProtoField.uint16("weft.epoch", "Epoch"),
  child = ProtoField.uint8("weft.child", "Child"),
  answer = ProtoField.uint8("weft.answer", "Answer", base.DEC, answers),
  operation = ProtoField.uint32("weft.operation", "Operation"),
  offset = ProtoField.uint32("weft.offset", "Offset"),
  slot = ProtoField.uint16("weft.slot", "Slot"),
  element = ProtoField.uint8("weft.element", "Element", base.DEC, elements),
  arithmetic = ProtoField.uint8("weft.arithmetic", "Arithmetic", base.DEC, operations),
  length = ProtoField.uint16("weft.length", "Length"),
  reserved = ProtoField.uint16("weft.reserved", "Reserved"),
  payload = ProtoField.bytes("weft.payload", "Payload"),
  job = ProtoField.uint32("weft.job", "Job", base.HEX),
  mac = ProtoField.ether("weft.mac", "MAC address"),
  gid = ProtoField.ipv6("weft.gid", "GID"),
  queue_pair = ProtoField.uint32("weft.queue_pair", "Queue pair", base.HEX),
  queue_key = ProtoField.uint32("weft.queue_key", "Q_Key", base.HEX),
  role = ProtoField.uint8("weft.role", "Role", base.DEC, {[0] = "TOR", "spine"}),
  features = ProtoField.uint8("weft.features", "Features", base.HEX),
  element_mask = ProtoField.uint32("weft.element_mask", "Elements", base.HEX),
  operation_mask = ProtoField.uint32("weft.operation_mask", "Operations", base.HEX),
  packet_bytes = ProtoField.uint16("weft.packet_bytes", "Bytes of data in a packet"),
  max_children = ProtoField.uint16("weft.max_children", "Most children"),
  groups = ProtoField.uint32("weft.groups", "Groups"),
  free_groups = ProtoField.uint32("weft.free_groups", "Free groups"),
  slots = ProtoField.uint32("weft.slots", "Slots"),
  free_slots = ProtoField.uint32("weft.free_slots", "Free slots"),
  num_spines = ProtoField.uint8("weft.num_spines", "Spines"),
  spine = ProtoField.ipv6("weft.spine", "Spine"),
  spine_port = ProtoField.uint16("weft.spine_port", "Port"),
  below = ProtoField.uint8("weft.below", "Below"),
  answers = ProtoField.uint8("weft.spine_answers", "Answers"),
  num_children = ProtoField.uint8("weft.num_children", "Children"),
  ordered = ProtoField.uint8("weft.ordered", "In order"),
  window = ProtoField.uint16("weft.window", "Window"),
  lease = ProtoField.uint16("weft.lease", "Lease in seconds"),
  num_above = ProtoField.uint8("weft.num_above", "Levels above"),
  parent = ProtoField.ipv6("weft.parent", "Parent"),
  parent_port = ProtoField.uint16("weft.parent_port", "Port"),
  child_at_parent = ProtoField.uint8("weft.child_at_parent", "Child number there"),
  num_siblings = ProtoField.uint8("weft.num_siblings", "Children there"),
  exponent = ProtoField.int32("weft.exponent", "Exponent"),
  value_i32 = ProtoField.int32("weft.value_i32", "i32"),
  value_f32 = ProtoField.float("weft.value_f32", "f32"),
  value_f64 = ProtoField.double("weft.value_f64", "f64"),
  text = ProtoField.string("weft.text", "Text"),
}
for _, field in pairs(f) do weft.fields[#weft.fields + 1] = field end

local wrong = ProtoExpert.new("weft.wrong", "not as the protocol says", expert.group.MALFORMED,
                              expert.severity.ERROR)
weft.experts = {wrong}

-- Takes one field after the other, big-endian.
local function reader(tree, range)
  local at = 0
  return function(field, bytes)
    if at + bytes > range:len() then return nil end
    local part = range(at, bytes)
    tree:add(field, part)
    at = at + bytes
    return part
  end
end

-- What a switch can do, its own or one above.
local function take_abilities(take)
  take(f.features, 1)
  take(f.element_mask, 4)
  take(f.operation_mask, 4)
  take(f.packet_bytes, 2)
  take(f.max_children, 2)
end

local bodies = {}
bodies[1] = function(take)
  take(f.job, 4)
  take(f.mac, 6)
  take(f.gid, 16)
  take(f.queue_pair, 4)
  take(f.queue_key, 4)
end
bodies[2] = function(take)
  take(f.role, 1)
  take_abilities(take)
  take(f.groups, 4)
  take(f.free_groups, 4)
  take(f.slots, 4)
  take(f.free_slots, 4)
  local count = take(f.num_spines, 1)
  for _ = 1, count and count:uint() or 0 do
    take(f.spine, 16)
    take(f.spine_port, 2)
    take(f.below, 1)
    take(f.answers, 1)
    take_abilities(take)
    take(f.free_groups, 4)
  end
end
bodies[3] = function(take)
  take(f.job, 4)
  take(f.num_children, 1)
  take(f.ordered, 1)
  take(f.window, 2)
  take(f.packet_bytes, 2)
  take(f.lease, 2)
  local levels = take(f.num_above, 1)
  for _ = 1, levels and levels:uint() or 0 do
    take(f.parent, 16)
    take(f.parent_port, 2)
    take(f.child_at_parent, 1)
    take(f.num_siblings, 1)
  end
end
bodies[4] = function(take) take(f.window, 2) end

-- Elements are little-endian.
local function add_elements(tree, range, element)
  local field, bytes = f.payload, 0
  if element == 5 or element == 17 then field, bytes = f.value_i32, 4 end
  if element == 9 then field, bytes = f.value_f32, 4 end
  if element == 10 then field, bytes = f.value_f64, 8 end
  if bytes == 0 then
    tree:add(f.payload, range)
    return
  end
  for at = 0, range:len() - bytes, bytes do
    local is_exponent = element == 17 and at == 0
    tree:add_le(is_exponent and f.exponent or field, range(at, bytes))
  end
end

function weft.dissector(buffer, info, root)
  info.cols.protocol = "Weft"
  local tree = root:add(weft, buffer())
  local take = reader(tree, buffer(0, 40))
  take(f.magic, 2)
  local version = take(f.version, 1):uint()
  local kind = take(f.kind, 1):uint()
  take(f.group, 4)
  take(f.key, 8)
  take(f.ticket, 4)
  take(f.epoch, 2)
  local child = take(f.child, 1):uint()
  local answer = take(f.answer, 1):uint()
  local operation = take(f.operation, 4):uint()
  local offset = take(f.offset, 4):uint()
  take(f.slot, 2)
  local element = take(f.element, 1):uint()
  take(f.arithmetic, 1)
  local length = take(f.length, 2):uint()
  local reserved = take(f.reserved, 2):uint()
  if version ~= 2 or not kinds[kind] or not answers[answer] or not elements[element]
      or reserved ~= 0 or 40 + length > buffer:len() then
    tree:add_proto_expert_info(wrong)
  end
  local text = kinds[kind] or "?"
  if answer ~= 0 then text = text .. " (" .. (answers[answer] or "?") .. ")" end
  if kind >= 8 and kind <= 15 then
    text = string.format("%s, operation %u, offset %u", text, operation, offset)
  end
  info.cols.info = string.format("%s, child %u", text, child)
  if length > 0 and 40 + length <= buffer:len() then
    local range = buffer(40, length)
    local body = tree:add(f.payload, range)
    if kind == 8 or kind == 9 or kind == 15 then
      add_elements(body, range, element)
    elseif kind == 16 or kind == 17 then
      body:add(f.text, range)
    elseif bodies[kind] then
      bodies[kind](reader(body, range))
    end
  end
  return buffer:len()
end

local function looks_like_it(buffer, info, root)
  if buffer:len() < 40 or buffer(0, 2):uint() ~= 0x5746 then return false end
  weft.dissector(buffer, info, root)
  return true
end
weft:register_heuristic("udp", looks_like_it)
weft:register_heuristic("infiniband.payload", looks_like_it)
