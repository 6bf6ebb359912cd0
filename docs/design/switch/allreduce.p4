// The data plane of a switch that computes allreduce (docs/design/switch-protocol.md), in P4_16 for
// v1model: contributions of 32-bit integers by UDP are added, and the results sent to all children.
// README.md beside this file says what it lacks and what its control program does. Not compiled so far.
//
// The control program answers query, notify, kill and status: they go to its port as they are, as all
// frames do that the table `frames` sends there. A group is in the tables once all its children have
// come; then data and renew are answered here.
#include <core.p4>
#include <v1model.p4>

#define SLOTS 4096   // of all groups together
#define GROUPS 256
#define CHILDREN 64
#define WORDS 16     // "packet bytes" of query_reply: 64
#define PORT 9000

typedef bit<48> mac_t;
typedef bit<64> place_t;  // operation and offset: later places are larger; 0: none

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> HEAD_BYTES = 20 + 8 + 40;  // of IPv4, UDP and Weft

const bit<8> KIND_RENEW = 7;
const bit<8> KIND_DATA = 8;
const bit<8> KIND_RESULT = 9;
const bit<8> KIND_WAIT = 10;
const bit<8> KIND_REFUSE = 11;

const bit<8> ANSWER_OK = 0;
const bit<8> ANSWER_PENDING = 1;
const bit<8> ANSWER_NO_GROUP = 2;
const bit<8> ANSWER_UNSUPPORTED = 5;
const bit<8> ANSWER_MISMATCH = 6;
const bit<8> ANSWER_OUT_OF_STEP = 7;
const bit<8> ANSWER_BAD_FORMAT = 9;

const bit<8> ELEMENT_I32 = 5;
const bit<8> ELEMENT_FIXED = 17;
const bit<8> ARITHMETIC_SUM = 3;

header ethernet_t {
    mac_t receiver;
    mac_t sender;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4> version;
    bit<4> header_words;
    bit<8> service;
    bit<16> total_bytes;
    bit<16> identification;
    bit<1> reserved;
    bit<1> not_to_fragment;
    bit<1> more_fragments;
    bit<13> fragment;
    bit<8> hops;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> sender;
    bit<32> receiver;
}

header udp_t {
    bit<16> sender;
    bit<16> receiver;
    bit<16> bytes;
    bit<16> checksum;
}

header weft_t {
    bit<16> magic;
    bit<8> version;
    bit<8> kind;
    bit<32> group;
    bit<64> secret;  // "key", which P4 has as a word of its own
    bit<32> ticket;
    bit<16> epoch;
    bit<8> child;
    bit<8> answer;
    bit<32> operation;
    bit<32> offset;
    bit<16> slot;
    bit<8> element;
    bit<8> arithmetic;
    bit<16> bytes;  // "length"
    bit<16> reserved;
}

header word_t {
    bit<32> value;  // little-endian
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    weft_t weft;
    word_t[WORDS] words;
}

struct metadata_t {
    bit<16> unread_bytes;
    bool is_answer;   // this packet is one now: its checksum is to be made
    bool to_all;      // a copy for each child of the group
    // The group, from the table.
    bit<32> group;
    bit<64> secret;
    bit<32> ticket;
    bit<16> epoch;
    bit<64> all_children;  // bit n: child n
    bit<32> first_slot;
    bit<16> window;
    bit<16> packet_bytes;
    bit<16> copies;  // the multicast group that has a member for each child
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        meta.is_answer = false;
        meta.to_all = false;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.protocol,
                          hdr.ipv4.more_fragments, hdr.ipv4.fragment) {
            (4, 5, PROTOCOL_UDP, 0, 0): parse_udp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.receiver) {
            PORT: parse_weft;
            default: accept;
        }
    }
    state parse_weft {
        packet.extract(hdr.weft);
        meta.unread_bytes = hdr.weft.bytes;
        transition select(hdr.weft.kind) {
            KIND_DATA: parse_words;
            default: accept;
        }
    }
    state parse_words {
        transition select(meta.unread_bytes) {
            0: accept;
            default: parse_word;
        }
    }
    // More words than there is room for, or a part of one, end in an error.
    state parse_word {
        packet.extract(hdr.words.next);
        meta.unread_bytes = meta.unread_bytes - 4;
        transition parse_words;
    }
}

control VerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.udp.isValid(),
            { hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.service, hdr.ipv4.total_bytes,
              hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.not_to_fragment,
              hdr.ipv4.more_fragments, hdr.ipv4.fragment, hdr.ipv4.hops, hdr.ipv4.protocol,
              hdr.ipv4.sender, hdr.ipv4.receiver },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

// What the words of a slot do with those of a packet.
const bit<2> STEP_NONE = 0;
const bit<2> STEP_SET = 1;   // the first contribution
const bit<2> STEP_ADD = 2;
const bit<2> STEP_READ = 3;  // a result once more

// One word of all slots, which is read and written once a packet. `word` becomes what the slot has.
control Lane(inout bit<32> word, in bit<32> at, in bit<2> step, in bool takes_larger) {
    register<bit<32>>(2 * SLOTS) sums;
    bit<32> ours;
    bit<32> sum;
    apply {
        ours = word[7:0] ++ word[15:8] ++ word[23:16] ++ word[31:24];
        sums.read(sum, at);
        if (step == STEP_SET) {
            sum = ours;
        } else if (step == STEP_ADD) {
            if (!takes_larger) {
                sum = sum + ours;
            } else if (((int<32>)ours) > ((int<32>)sum)) {
                sum = ours;
            }
        }
        if (step == STEP_SET || step == STEP_ADD) {
            sums.write(at, sum);
        }
        word = sum[7:0] ++ sum[15:8] ++ sum[23:16] ++ sum[31:24];
    }
}

// `i` is below the number of words of the slot, or its header does not travel.
#define LANE(i, lane)                                                         \
    if (hdr.weft.bytes > 4 * i) {                                             \
        hdr.words[i].setValid();                                              \
        lane.apply(hdr.words[i].value, at, step, is_fixed && (i == 0));       \
    } else {                                                                  \
        hdr.words[i].setInvalid();                                            \
    }

control Ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Of each slot: the place that is being added up, the children that have contributed (bit n: child
    // n), and the place before, whose result is kept. A form is element, arithmetic and bytes. The
    // buffer, 0 or 1, has the sum; the other one has the kept result.
    register<bit<64>>(SLOTS) places;
    register<bit<64>>(SLOTS) contributors;
    register<bit<32>>(SLOTS) forms;
    register<bit<64>>(SLOTS) kept_places;
    register<bit<32>>(SLOTS) kept_forms;
    register<bit<1>>(SLOTS) buffers;
    // For the control program, which ends groups whose lease is over.
    register<bit<48>>(GROUPS) last_received;

    Lane() lane0;
    Lane() lane1;
    Lane() lane2;
    Lane() lane3;
    Lane() lane4;
    Lane() lane5;
    Lane() lane6;
    Lane() lane7;
    Lane() lane8;
    Lane() lane9;
    Lane() lane10;
    Lane() lane11;
    Lane() lane12;
    Lane() lane13;
    Lane() lane14;
    Lane() lane15;

    action drop() {
        mark_to_drop(standard);
    }

    // Frames to others, and to the control program: an Ethernet switch. The program learns addresses
    // from the frames that come to it, by flooding too.
    action send_to(bit<9> port) {
        standard.egress_spec = port;
    }
    action flood(bit<16> ports) {
        standard.mcast_grp = ports;
    }
    table frames {
        key = { hdr.ethernet.receiver: exact; }
        actions = { send_to; flood; drop; }
        default_action = drop();
        size = 4096;
    }

    // This switch's own addresses.
    table own {
        key = { hdr.ethernet.receiver: exact; hdr.ipv4.receiver: exact; }
        actions = { NoAction; }
        default_action = NoAction();
        size = 16;
    }

    action set_group(bit<32> group, bit<64> secret, bit<32> ticket, bit<16> epoch,
                     bit<64> all_children, bit<32> first_slot, bit<16> window, bit<16> packet_bytes,
                     bit<16> copies) {
        meta.group = group;
        meta.secret = secret;
        meta.ticket = ticket;
        meta.epoch = epoch;
        meta.all_children = all_children;
        meta.first_slot = first_slot;
        meta.window = window;
        meta.packet_bytes = packet_bytes;
        meta.copies = copies;
    }
    table groups {
        key = { hdr.weft.group: exact; }
        actions = { set_group; NoAction; }
        default_action = NoAction();
        size = GROUPS;
    }

    // Children by the addresses that they have come from. Whoever else names a child's number is
    // not answered.
    table children {
        key = {
            meta.group: exact;
            hdr.weft.child: exact;
            hdr.ipv4.sender: exact;
            hdr.udp.sender: exact;
        }
        actions = { NoAction; }
        default_action = NoAction();
        size = GROUPS * CHILDREN;
    }

    action become_answer(bit<8> kind, bit<8> answer, bit<16> bytes) {
        meta.is_answer = true;
        hdr.weft.kind = kind;
        hdr.weft.answer = answer;
        hdr.weft.bytes = bytes;
        hdr.ipv4.total_bytes = HEAD_BYTES + bytes;
        hdr.udp.bytes = HEAD_BYTES - 20 + bytes;
        hdr.udp.checksum = 0;
        hdr.ipv4.hops = 64;
    }
    action return_to_sender() {
        mac_t mac = hdr.ethernet.sender;
        hdr.ethernet.sender = hdr.ethernet.receiver;
        hdr.ethernet.receiver = mac;
        bit<32> address = hdr.ipv4.sender;
        hdr.ipv4.sender = hdr.ipv4.receiver;
        hdr.ipv4.receiver = address;
        bit<16> port = hdr.udp.sender;
        hdr.udp.sender = hdr.udp.receiver;
        hdr.udp.receiver = port;
        standard.egress_spec = standard.ingress_port;
    }
    // An answer has the header of the packet that it is about, and no payload.
    action answer(bit<8> kind, bit<8> reason) {
        become_answer(kind, reason, 0);
        hdr.words.pop_front(WORDS);
        return_to_sender();
    }

    apply {
        bool is_ours = false;
        if (hdr.weft.isValid() &&
            (hdr.weft.kind == KIND_DATA || hdr.weft.kind == KIND_RENEW)) {
            if (own.apply().hit) {
                is_ours = true;
            }
        }
        if (!is_ours) {
            frames.apply();
            return;
        }
        // Malformed packets are not answered.
        if (standard.parser_error != error.NoError || standard.checksum_error == 1 ||
            hdr.weft.magic != 0x5746 || hdr.weft.version != 1 || hdr.weft.reserved != 0 ||
            hdr.weft.answer > 11 || hdr.udp.bytes != HEAD_BYTES - 20 + hdr.weft.bytes ||
            hdr.ipv4.total_bytes != HEAD_BYTES + hdr.weft.bytes ||
            standard.packet_length != 14 + (bit<32>)hdr.ipv4.total_bytes) {
            drop();
            return;
        }
        if (!groups.apply().hit) {
            answer(KIND_REFUSE, ANSWER_NO_GROUP);
            return;
        }
        if (hdr.weft.secret != meta.secret) {
            drop();
            return;
        }
        if (hdr.weft.ticket != meta.ticket || hdr.weft.epoch != meta.epoch) {
            answer(KIND_REFUSE, ANSWER_NO_GROUP);
            return;
        }
        if (!children.apply().hit) {
            drop();
            return;
        }
        last_received.write(meta.group, standard.ingress_global_timestamp);
        if (hdr.weft.kind == KIND_RENEW) {
            answer(KIND_WAIT, ANSWER_OK);
            return;
        }
        if (hdr.weft.slot >= meta.window || hdr.weft.bytes == 0 ||
            hdr.weft.bytes > meta.packet_bytes || hdr.weft.operation == 0) {
            answer(KIND_REFUSE, ANSWER_BAD_FORMAT);
            return;
        }
        bool is_fixed = hdr.weft.element == ELEMENT_FIXED;
        if ((hdr.weft.element != ELEMENT_I32 && !is_fixed) ||
            hdr.weft.arithmetic != ARITHMETIC_SUM) {
            answer(KIND_REFUSE, ANSWER_UNSUPPORTED);
            return;
        }

        // The rules of "The switch: slots". No packet may come between the reading of a slot and its
        // writing.
        @atomic {
            bit<32> slot = meta.first_slot + (bit<32>)hdr.weft.slot;
            place_t place = hdr.weft.operation ++ hdr.weft.offset;
            bit<32> form = hdr.weft.element ++ hdr.weft.arithmetic ++ hdr.weft.bytes;
            bit<64> child = 64w1 << hdr.weft.child;
            place_t current;
            bit<64> have;
            bit<32> current_form;
            place_t kept;
            bit<32> kept_form;
            bit<1> buffer;
            places.read(current, slot);
            contributors.read(have, slot);
            forms.read(current_form, slot);
            kept_places.read(kept, slot);
            kept_forms.read(kept_form, slot);
            buffers.read(buffer, slot);
            bool is_complete = have == meta.all_children;
            bit<2> step = STEP_NONE;

            if (place == current) {
                if (is_complete) {
                    step = STEP_READ;
                    form = current_form;
                } else if (form != current_form) {
                    answer(KIND_REFUSE, ANSWER_MISMATCH);
                } else if ((have & child) != 0) {
                    answer(KIND_WAIT, ANSWER_PENDING);
                } else {
                    step = STEP_ADD;
                    have = have | child;
                    contributors.write(slot, have);
                }
            } else if (place == kept) {
                step = STEP_READ;
                form = kept_form;
                buffer = ~buffer;
            } else if (place < current) {
                drop();
            } else if (current != 0 && !is_complete) {
                answer(KIND_REFUSE, ANSWER_OUT_OF_STEP);
            } else {
                // The slot begins anew, and its last result becomes the kept one.
                step = STEP_SET;
                have = child;
                buffer = ~buffer;
                kept_places.write(slot, current);
                kept_forms.write(slot, current_form);
                places.write(slot, place);
                forms.write(slot, form);
                contributors.write(slot, have);
                buffers.write(slot, buffer);
            }

            if (step != STEP_NONE) {
                bit<32> at = (slot << 1) | (bit<32>)buffer;
                hdr.weft.element = form[31:24];
                hdr.weft.arithmetic = form[23:16];
                hdr.weft.bytes = form[15:0];
                LANE(0, lane0)
                LANE(1, lane1)
                LANE(2, lane2)
                LANE(3, lane3)
                LANE(4, lane4)
                LANE(5, lane5)
                LANE(6, lane6)
                LANE(7, lane7)
                LANE(8, lane8)
                LANE(9, lane9)
                LANE(10, lane10)
                LANE(11, lane11)
                LANE(12, lane12)
                LANE(13, lane13)
                LANE(14, lane14)
                LANE(15, lane15)
                become_answer(KIND_RESULT, ANSWER_OK, form[15:0]);
                if (step == STEP_READ) {
                    return_to_sender();
                } else if (have == meta.all_children) {
                    meta.to_all = true;
                    standard.mcast_grp = meta.copies;
                } else {
                    drop();
                }
            }
        }
    }
}

// Each copy of a result gets its child's addresses; copies are numbered by child from 1.
control Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }
    action to_child(bit<8> child, mac_t mac, bit<32> address, bit<16> port) {
        hdr.weft.child = child;
        hdr.ethernet.sender = hdr.ethernet.receiver;
        hdr.ethernet.receiver = mac;
        hdr.ipv4.sender = hdr.ipv4.receiver;
        hdr.ipv4.receiver = address;
        hdr.udp.sender = hdr.udp.receiver;
        hdr.udp.receiver = port;
    }
    table copies {
        key = { meta.group: exact; standard.egress_rid: exact; }
        actions = { to_child; drop; }
        default_action = drop();
        size = GROUPS * CHILDREN;
    }
    apply {
        if (meta.to_all) {
            copies.apply();
        } else if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
            drop();  // a flooded frame does not go back
        }
    }
}

control UpdateChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.is_answer,
            { hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.service, hdr.ipv4.total_bytes,
              hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.not_to_fragment,
              hdr.ipv4.more_fragments, hdr.ipv4.fragment, hdr.ipv4.hops, hdr.ipv4.protocol,
              hdr.ipv4.sender, hdr.ipv4.receiver },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.weft);
        packet.emit(hdr.words);
    }
}

V1Switch(Parse(), VerifyChecksum(), Ingress(), Egress(), UpdateChecksum(), Deparse()) main;
