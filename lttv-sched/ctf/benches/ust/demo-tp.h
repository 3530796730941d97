/* Tracepoints of the benchmark's traced program: the field kinds that real providers use. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./demo-tp.h"
#if !defined(DEMO_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define DEMO_TP_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(bench, request, LTTNG_UST_TP_ARGS(int, id, const char *, name, double, load),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, id, id) lttng_ust_field_string(name, name) lttng_ust_field_float(double, load, load)))
LTTNG_UST_TRACEPOINT_EVENT(bench, stack, LTTNG_UST_TP_ARGS(unsigned long *, ips, unsigned, n),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_hex(unsigned long, ip, ips[0]) lttng_ust_field_sequence(unsigned long, ips, ips, unsigned, n)))
LTTNG_UST_TRACEPOINT_EVENT(bench, switch, LTTNG_UST_TP_ARGS(int, prev, int, next, long, state),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, prev_tid, prev) lttng_ust_field_integer(int, next_tid, next) lttng_ust_field_integer(long, prev_state, state)
        lttng_ust_field_integer(short, prio, (short)state) lttng_ust_field_integer_network(unsigned short, port, (unsigned short)next)))
LTTNG_UST_TRACEPOINT_EVENT(bench, blob, LTTNG_UST_TP_ARGS(const char *, text, unsigned, n),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence_text(char, text, text, unsigned, n) lttng_ust_field_array_text(char, head, text, 4)))
#endif
#include <lttng/tracepoint-event.h>
