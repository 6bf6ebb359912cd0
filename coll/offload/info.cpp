#include "coll/offload/info.hpp"

#include <fmt/core.h>

#include "base/wait.hpp"
#include "coll/offload/link.hpp"
#include "coll/offload/placement.hpp"

namespace weft::offload {
namespace {

template <class Name, class T>
std::string list(std::uint32_t mask, std::size_t count, Name&& name_of, T) {
  std::string text;
  for (std::size_t i = 1; i < count; ++i)
    if (mask >> i & 1) text += fmt::format(" {}", name_of(static_cast<T>(i)));
  return text.empty() ? " none" : text;
}

}  // namespace

std::string offload_text(const Settings& settings) {
  const std::string& mode = settings.text(Setting::offload);
  if (mode == "off") return "  off; WEFT_OFFLOAD=node or socket turns it on\n";
  std::string when = "where it is faster, as measured";
  if (settings.text(Setting::offload_when) == "force")
    when = "always";
  else if (const auto lengths = lengths_of(settings.text(Setting::offload_when)))
    when = fmt::format("from {} to {} bytes", lengths->min, lengths->max);
  std::string text = fmt::format("  one leader a {}, {}\n", mode, when);
  const std::string& name = settings.text(Setting::offload_switch);
  if (is_placement(name))
    return text + fmt::format("  switches are those that {} names for each rank\n", name);
  std::string why;
  const auto address = find_switch(name, why);
  if (!address) return text + fmt::format("  not usable: WEFT_OFFLOAD_SWITCH: {}\n", why);
  Link link;
  if (const Status status = link.open(*address); !status)
    return text + fmt::format("  not usable: {}\n", status.text());
  const std::uint64_t now = now_ns();
  const auto timeout_ms = settings.number(Setting::offload_timeout_ms);
  link.enrolment().query({}, now, now + static_cast<std::uint64_t>(timeout_ms) * 1'000'000);
  while (!link.enrolment().is_over()) {
    link.sleep(10);
    link.advance_enrolment();
  }
  if (!link.enrolment().answers())
    return text + fmt::format("  not usable: the switch {} does not answer within {} ms\n", name,
                              timeout_ms);
  const innet::Capabilities& can = link.enrolment().can();
  text += fmt::format(
      "  the switch {}: {} bytes a packet, {} children a group, room for {} of {} groups and {} of "
      "{} "
      "slots\n",
      name, can.payload_bytes, can.max_children, can.free_groups, can.groups, can.free_slots,
      can.slots);
  text +=
      fmt::format("  types:{}\n", list(
                                      can.elements, innet::kNumElements,
                                      [](auto e) { return innet::name(e); }, innet::Element::none));
  text += fmt::format("  operations:{}\n",
                      list(
                          can.operations, innet::kNumOperations,
                          [](auto o) { return innet::name(o); }, innet::Operation::none));
  if (!(can.features & innet::kFeatureOrdered))
    text +=
        settings.text(Setting::offload_float) == "ordered"
            ? "  not usable: it cannot add in order (WEFT_OFFLOAD_FLOAT=arrival needs no order)\n"
            : "  it cannot add in order\n";
  if (settings.text(Setting::offload_float) == "fixed" &&
      !(can.elements >> static_cast<unsigned>(innet::Element::fixed) & 1))
    text += "  hosts add floats: it has no type `fixed` (WEFT_OFFLOAD_FLOAT=fixed wants it)\n";
  for (const auto& spine : can.spines)
    text +=
        fmt::format("  the spine {}{}: {}\n", innet::text(spine.address),
                    spine.below != 0 ? " above " + innet::text(can.spines[spine.below - 1u].address)
                                     : std::string(),
                    spine.answers ? fmt::format("{} children a group, room for {} groups",
                                                spine.max_children, spine.free_groups)
                                  : std::string("does not answer"));
  return text;
}

}  // namespace weft::offload
