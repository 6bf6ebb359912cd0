#ifndef WEFT_OBJECT_STORE_H
#define WEFT_OBJECT_STORE_H
/* weft/object_store.hpp for C and for languages that call C. That header documents each call, its
 * threads and its errors. Functions return a weft_code, 0 for success; weft_object_error_text() has
 * the text of the last error. Times are milliseconds; below 0: for ever. */
#include "weft/node.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of an object: `size` bytes, 1 to 255, of any value; the bytes after them are ignored. */
typedef struct {
  uint8_t size;
  uint8_t bytes[255];
} weft_object_id;
/* The longest text of an id, with its terminating zero. */
#define WEFT_OBJECT_ID_TEXT_BYTES 513

typedef struct weft_object_store weft_object_store;
typedef struct weft_object weft_object;               /* a reference */
typedef struct weft_object_buffer weft_object_buffer; /* being written */

typedef struct {
  weft_object_id id;
  uint32_t metadata_bytes;
  uint64_t data_bytes;
  uint32_t is_pinned, is_referenced, is_spilled;
} weft_object_entry;

/* The text of the last error of this thread; valid until the next call. */
WEFT_C_API const char* weft_object_error_text(void);
/* The id of these bytes; WEFT_BAD_ARGUMENT: none, or more than 255. */
WEFT_C_API int weft_object_id_make(const void* bytes, size_t num, weft_object_id* id);
/* The id that a text names: its bytes, or those that "0x" and hexadecimal digits spell. */
WEFT_C_API int weft_object_id_parse(const char* text, weft_object_id* id);
WEFT_C_API void weft_object_id_text(const weft_object_id* id, char text[WEFT_OBJECT_ID_TEXT_BYTES]);

/* Null: the default socket, no name. */
WEFT_C_API int weft_object_store_open(const char* socket, const char* name,
                                      weft_object_store** store);
/* Objects, buffers and memory stay as they are until they are freed, and keep the connection;
 * nothing else of the store is called. */
WEFT_C_API void weft_object_store_close(weft_object_store* store);

/* A thread that waits for the store calls the function about every 50 ms, and when a signal has
 * woken it; not 0: its call is given up and ends with WEFT_CANCELLED, unless it is done by then.
 * Null: nothing is called. */
WEFT_C_API void weft_object_store_set_interrupt(weft_object_store* store,
                                                int (*is_interrupted)(void));
/* The number of calls it has interrupted or found done; valid until the store is closed. */
WEFT_C_API const int* weft_object_store_interrupts(weft_object_store* store);

WEFT_C_API int weft_object_contains(weft_object_store* store, const weft_object_id* id);
WEFT_C_API int weft_object_create(weft_object_store* store, const weft_object_id* id,
                                  uint64_t data_bytes, uint32_t metadata_bytes, uint64_t ttl_ms,
                                  int is_pinned, int64_t timeout_ms, weft_object_buffer** buffer);
WEFT_C_API void* weft_object_buffer_data(const weft_object_buffer* buffer);
WEFT_C_API void* weft_object_buffer_metadata(const weft_object_buffer* buffer);
/* Both free the buffer, whatever the outcome. */
WEFT_C_API int weft_object_seal(weft_object_store* store, weft_object_buffer* buffer);
WEFT_C_API void weft_object_abort(weft_object_buffer* buffer);
WEFT_C_API int weft_object_put(weft_object_store* store, const weft_object_id* id, const void* data,
                               uint64_t data_bytes, const void* metadata, uint32_t metadata_bytes,
                               uint64_t ttl_ms, int is_pinned, int64_t timeout_ms);
/* The same, on so many hosts before it returns; WEFT_PEER_LOST: on fewer, where it stays. */
WEFT_C_API int weft_object_put_copies(weft_object_store* store, const weft_object_id* id,
                                      const void* data, uint64_t data_bytes, const void* metadata,
                                      uint32_t metadata_bytes, uint32_t copies, uint64_t ttl_ms,
                                      int is_pinned, int64_t timeout_ms);
/* The same; is_first: with WEFT_EXISTS if another host has an object of that id. */
WEFT_C_API int weft_object_put_first(weft_object_store* store, const weft_object_id* id,
                                     const void* data, uint64_t data_bytes, const void* metadata,
                                     uint32_t metadata_bytes, uint32_t copies, int is_first,
                                     uint64_t ttl_ms, int is_pinned, int64_t timeout_ms);
/* objects: num of them, each freed with weft_object_release; null for those that did not come. */
WEFT_C_API int weft_object_get(weft_object_store* store, const weft_object_id* ids, size_t num,
                               int64_t timeout_ms, weft_object** objects);
WEFT_C_API const void* weft_object_data(const weft_object* object, uint64_t* bytes);
WEFT_C_API const void* weft_object_metadata(const weft_object* object, uint64_t* bytes);
WEFT_C_API void weft_object_release(weft_object* object);
/* A range of the object's data into memory of the program's own; *data_bytes: of the whole object.
 */
WEFT_C_API int weft_object_get_into(weft_object_store* store, const weft_object_id* id,
                                    uint64_t offset, void* into, uint64_t bytes, int64_t timeout_ms,
                                    uint64_t* data_bytes);
typedef struct weft_object_memory weft_object_memory; /* that the store can write to */
WEFT_C_API int weft_object_memory_allocate(weft_object_store* store, uint64_t bytes,
                                           weft_object_memory** memory);
WEFT_C_API void* weft_object_memory_data(const weft_object_memory* memory);
WEFT_C_API void weft_object_memory_free(weft_object_memory* memory);
/* The result of a push to one host: its name as given, a weft_code, and whether it had the object
 * before. */
typedef struct {
  char host[120];
  int code;
  int was_there;
} weft_object_pushed;
/* To these hosts at once; num_hosts 0: all. pushed: the results of at most `most` hosts; *num: the
 * number of all. */
WEFT_C_API int weft_object_push(weft_object_store* store, const weft_object_id* id,
                                const char* const* hosts, size_t num_hosts, int64_t timeout_ms,
                                weft_object_pushed* pushed, size_t most, size_t* num);
WEFT_C_API int weft_object_delete(weft_object_store* store, const weft_object_id* id);
WEFT_C_API int weft_object_pin(weft_object_store* store, const weft_object_id* id, int is_pinned);
/* is_here: num bytes, 1 for those that are here; set with WEFT_TIMED_OUT, too. */
WEFT_C_API int weft_object_wait(weft_object_store* store, const weft_object_id* ids, size_t num,
                                size_t least, int64_t timeout_ms, uint8_t* is_here);
WEFT_C_API int weft_object_fetch(weft_object_store* store, const weft_object_id* ids, size_t num,
                                 int64_t timeout_ms);
/* At most `most` entries are written; *num: how many there are. */
WEFT_C_API int weft_object_list(weft_object_store* store, weft_object_entry* entries, size_t most,
                                size_t* num);
WEFT_C_API int weft_object_subscribe(weft_object_store* store);
/* WEFT_TIMED_OUT: none came. */
WEFT_C_API int weft_object_next_event(weft_object_store* store, int64_t timeout_ms,
                                      weft_object_entry* event);
/* With a terminating zero; truncated if it does not fit (131073 bytes always do). */
WEFT_C_API int weft_object_status(weft_object_store* store, char* json, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
