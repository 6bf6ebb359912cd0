#ifndef WEFT_NODE_H
#define WEFT_NODE_H
/* weft/node.hpp for C and for languages that call C. That header documents each call, its threads
 * and its errors; this one has the signatures. Functions return a weft_code, 0 for success;
 * weft_error_text() has the text of the last error. Callbacks of other threads (peers, messages,
 * notifications) come as events, in a queue. */
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEFT_C_API __attribute__((visibility("default")))
#else
#define WEFT_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  WEFT_OK = 0,
  WEFT_AGAIN = 1,
  WEFT_BAD_ARGUMENT = 2,
  WEFT_BAD_SETTING = 3,
  WEFT_NO_MEMORY = 4,
  WEFT_NOT_PERMITTED = 5,
  WEFT_NOT_FOUND = 6,
  WEFT_TRUNCATED = 7,
  WEFT_PEER_LOST = 8,
  WEFT_TIMED_OUT = 9,
  WEFT_CORRUPT = 10,
  WEFT_UNSUPPORTED = 11,
  WEFT_CANCELLED = 12,
  WEFT_INTERNAL = 13,
  WEFT_OUTCOME_UNKNOWN = 14,
  WEFT_EXISTS = 15
} weft_code;

enum { WEFT_READ = 1, WEFT_WRITE = 2, WEFT_ATOMIC = 4 };

typedef struct weft_node weft_node;
typedef struct weft_peer weft_peer;     /* a handle; free each with weft_peer_free */
typedef struct weft_memory weft_memory; /* memory of a peer; a thread's own */
typedef struct weft_op weft_op;         /* an operation; may be used again once done */

typedef struct {
  uint8_t bytes[32];
} weft_key;

/* The text of the last error of this thread; valid until the next call. */
WEFT_C_API const char* weft_error_text(void);
WEFT_C_API const char* weft_code_name(int code);

/* Null or 0 for any of them but the last: as NodeSettings has it. */
typedef struct {
  const char* name;
  const void* secret; /* any bytes, so many */
  size_t secret_bytes;
  const char* fabrics;
  int timeout_ms;
  int progress_thread; /* 1: as NodeSettings has it; 0: none, so the program makes progress */
} weft_node_settings;
WEFT_C_API int weft_node_open_with(const weft_node_settings* settings, weft_node** node);
/* The same with a secret that ends at its first NUL. */
WEFT_C_API int weft_node_open(const char* name, const char* secret, const char* fabrics,
                              int timeout_ms, int progress_thread, weft_node** node);
/* Ends all operations (cancelled). No other call may run. Peers, memories and operations may be
 * freed later, and are of no other use then. In a child that the process has forked it leaves all
 * to the parent, as do the other calls: WEFT_BAD_ARGUMENT. */
WEFT_C_API void weft_node_close(weft_node* node);
WEFT_C_API int weft_listen(weft_node* node, const char* address);
/* With a terminating zero; truncated if it does not fit (8192 bytes always do). */
WEFT_C_API int weft_address(weft_node* node, char* text, size_t bytes);
WEFT_C_API int weft_connect(weft_node* node, const char* address, int timeout_ms, weft_peer** peer);
/* The same in steps, for callers that have something else to look at meanwhile. weft_connect_wait
 * waits so long at most: WEFT_AGAIN, or how it ended, and then the peer. Free it in any case; one
 * that has not ended goes on, and its peer comes as an event. */
typedef struct weft_connecting weft_connecting;
WEFT_C_API int weft_connect_begin(weft_node* node, const char* address, int timeout_ms,
                                  weft_connecting** connecting);
WEFT_C_API int weft_connect_wait(weft_node* node, weft_connecting* connecting, int wait_ms,
                                 weft_peer** peer);
WEFT_C_API void weft_connect_free(weft_connecting* connecting);
WEFT_C_API void weft_disconnect(weft_node* node, const weft_peer* peer);
WEFT_C_API void weft_peer_free(weft_peer* peer);
WEFT_C_API const char* weft_peer_name(const weft_peer* peer);
WEFT_C_API uint64_t weft_peer_generation(const weft_peer* peer);
WEFT_C_API const char* weft_peer_fabric(const weft_peer* peer);
WEFT_C_API int weft_peer_is_lost(const weft_peer* peer);
WEFT_C_API size_t weft_peer_message_max(const weft_peer* peer);

WEFT_C_API int weft_allocate(weft_node* node, size_t bytes, void** address);
WEFT_C_API int weft_release(weft_node* node, void* address);
WEFT_C_API int weft_register(weft_node* node, void* address, size_t bytes);
WEFT_C_API int weft_deregister(weft_node* node, void* address);
/* only: null for any holder of the key. */
WEFT_C_API int weft_make_key(weft_node* node, const void* address, uint32_t rights,
                             const weft_peer* only, weft_key* key);
/* Null: no memory. */
WEFT_C_API weft_memory* weft_memory_open(weft_node* node, const weft_peer* peer,
                                         const weft_key* key);
WEFT_C_API void weft_memory_free(weft_memory* memory);

WEFT_C_API weft_op* weft_op_new(void); /* null: no memory */
WEFT_C_API void weft_op_free(weft_op* op);
WEFT_C_API int weft_op_is_done(const weft_op* op);
WEFT_C_API int weft_op_code(const weft_op* op); /* WEFT_AGAIN: under way */
WEFT_C_API uint64_t weft_op_previous(const weft_op* op);
WEFT_C_API int weft_wait(weft_node* node, const weft_op* op); /* its code */
/* The same for so long at most: then WEFT_AGAIN, and the operation goes on. */
WEFT_C_API int weft_wait_for(weft_node* node, const weft_op* op, int timeout_ms);
WEFT_C_API void weft_put(weft_node* node, const weft_memory* to, uint64_t offset, const void* from,
                         size_t bytes, weft_op* op);
WEFT_C_API void weft_put_notify(weft_node* node, const weft_memory* to, uint64_t offset,
                                const void* from, size_t bytes, const uint8_t tag[16], weft_op* op);
WEFT_C_API void weft_get(weft_node* node, const weft_memory* from, uint64_t offset, void* to,
                         size_t bytes, weft_op* op);
WEFT_C_API void weft_cas(weft_node* node, const weft_memory* word, uint64_t offset,
                         uint64_t compare, uint64_t swap, weft_op* op);
WEFT_C_API void weft_fetch_add(weft_node* node, const weft_memory* word, uint64_t offset,
                               uint64_t value, weft_op* op);
/* Up to weft_peer_message_max() bytes; WEFT_AGAIN: no room now. */
WEFT_C_API int weft_send(weft_node* node, const weft_peer* peer, const void* message, size_t bytes);
WEFT_C_API void weft_send_long(weft_node* node, const weft_peer* peer, const void* message,
                               size_t bytes, weft_op* op);

enum { WEFT_EVENT_PEER = 1, WEFT_EVENT_LOST, WEFT_EVENT_MESSAGE, WEFT_EVENT_NOTIFY };
typedef struct {
  int kind;
  int code;         /* lost: why */
  weft_peer* peer;  /* of the event; or take it and set it to null */
  const void* data; /* message; lost: a text; notify: the tag. Until weft_event_clear */
  size_t bytes;
  void* hidden;
} weft_event;
/* The eldest event, if there is one: 1, else 0. Does not wait, nor move things on. */
WEFT_C_API int weft_next_event(weft_node* node, weft_event* event);
WEFT_C_API void weft_event_clear(weft_event* event);

WEFT_C_API int weft_progress(weft_node* node);
WEFT_C_API void weft_wait_some(weft_node* node, int timeout_ms);
WEFT_C_API int weft_event_fd(const weft_node* node);
WEFT_C_API int weft_arm(weft_node* node);

#ifdef __cplusplus
}
#endif
#endif
