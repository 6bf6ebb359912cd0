// The tool information interface: all codes, wrong arguments, texts, before MPI_Init and after
// MPI_Finalize; that what is written takes effect and what is counted is what was sent.
//   tools            one thread
//   tools threads    with MPI_THREAD_MULTIPLE, and threads that only look on
//   tools death      rank 1 is killed, which the others are told as an event
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "expect.h"

enum { kBound = 65536, kMany = 100, kShort = 100 };
static int threaded;

// ---- control variables ----

static MPI_T_cvar_handle cvar_of(const char* name, int* count) {
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int index = -1;
  EXPECT_OK(MPI_T_cvar_get_index(name, &index));
  EXPECT_OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, count));
  EXPECT(handle != MPI_T_CVAR_HANDLE_NULL);
  return handle;
}

static int verbosity_of(const char* name) {
  int index = -1, verbosity = -1;
  EXPECT_OK(MPI_T_cvar_get_index(name, &index));
  EXPECT_OK(MPI_T_cvar_get_info(index, NULL, NULL, &verbosity, NULL, NULL, NULL, NULL, NULL, NULL));
  return verbosity;
}

static void check_cvar_infos(void) {
  int num = 0;
  EXPECT_OK(MPI_T_cvar_get_num(&num));
  EXPECT(num > 20);
  for (int i = 0; i < num; ++i) {
    char name[64] = "", part[5] = "zzzz", desc[2000] = "";
    int name_len = sizeof name, part_len = sizeof part, none = 0, desc_len = sizeof desc;
    int verbosity, bind, scope, index = -1, items = 0, value = -1, count;
    MPI_Datatype type;
    MPI_T_enum enumtype;
    EXPECT_OK(MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &enumtype, desc, &desc_len,
                                  &bind, &scope));
    EXPECT_EQ(name_len, strlen(name) + 1);
    EXPECT_EQ(desc_len, strlen(desc) + 1);
    EXPECT(strncmp(name, "WEFT_", 5) == 0 && desc_len > 5);
    EXPECT_EQ(bind, MPI_T_BIND_NO_OBJECT);
    EXPECT(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
    EXPECT(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ);
    EXPECT_OK(MPI_T_cvar_get_index(name, &index));
    EXPECT_EQ(index, i);
    EXPECT_OK(MPI_T_cvar_get_info(i, part, &part_len, NULL, NULL, NULL, NULL, &none, NULL, NULL));
    EXPECT_EQ(part_len, name_len);
    EXPECT_EQ(none, desc_len);
    EXPECT(strcmp(part, "WEFT") == 0);
    EXPECT_OK(MPI_T_cvar_get_info(i, part, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    EXPECT((enumtype != MPI_T_ENUM_NULL) == (type == MPI_INT));
    MPI_T_cvar_handle handle;
    EXPECT_OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &count));
    if (type == MPI_INT) {
      name_len = sizeof name;
      EXPECT_OK(MPI_T_enum_get_info(enumtype, &items, name, &name_len));
      EXPECT(items >= 2);
      EXPECT_OK(MPI_T_cvar_read(handle, &value));
      EXPECT(value >= 0 && value < items);
      for (int item = 0; item < items; ++item) {
        name_len = sizeof name;
        EXPECT_OK(MPI_T_enum_get_item(enumtype, item, &value, name, &name_len));
        EXPECT_EQ(value, item);
        EXPECT(name_len == (int)strlen(name) + 1 && name_len > 1);
      }
      EXPECT_EQ(MPI_T_enum_get_item(enumtype, items, &value, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
      EXPECT_EQ(MPI_T_enum_get_item(enumtype, -1, &value, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
      EXPECT_OK(MPI_T_enum_get_item(enumtype, 0, NULL, NULL, NULL));
    } else if (type == MPI_CHAR) {
      char* text = allocate((size_t)count);
      memset(text, 1, (size_t)count);
      EXPECT_OK(MPI_T_cvar_read(handle, text));
      EXPECT(memchr(text, 0, (size_t)count) != NULL);
      free(text);
    } else {
      MPI_Count number = -1;
      EXPECT(type == MPI_COUNT);
      EXPECT_EQ(count, 1);
      EXPECT_OK(MPI_T_cvar_read(handle, &number));
      EXPECT(number >= 0);
    }
    EXPECT_OK(MPI_T_cvar_handle_free(&handle));
    EXPECT(handle == MPI_T_CVAR_HANDLE_NULL);
  }
  EXPECT_EQ(verbosity_of("WEFT_FABRIC"), MPI_T_VERBOSITY_USER_BASIC);
  EXPECT_EQ(verbosity_of("WEFT_RING_MIN_BYTES"), MPI_T_VERBOSITY_TUNER_ALL);
  EXPECT_EQ(MPI_T_cvar_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            MPI_T_ERR_INVALID_INDEX);
}

static void check_cvar_errors(void) {
  int count, index = -1;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  EXPECT_EQ(MPI_T_cvar_get_num(NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_cvar_get_index("WEFT_NO_SUCH", &index), MPI_T_ERR_INVALID_NAME);
  EXPECT_EQ(MPI_T_cvar_get_index("LOG", &index), MPI_T_ERR_INVALID_NAME);
  EXPECT_EQ(MPI_T_cvar_get_index(NULL, &index), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_cvar_get_index("WEFT_LOG", NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_cvar_handle_alloc(-1, NULL, &handle, &count), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_cvar_handle_alloc(0, NULL, NULL, &count), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_cvar_handle_free(NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_cvar_handle_free(&handle), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_cvar_read(handle, &count), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_cvar_write(handle, &count), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &count, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
  handle = cvar_of("WEFT_LOG", &count);
  const MPI_T_cvar_handle freed = handle;
  EXPECT_EQ(MPI_T_cvar_read(handle, NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_cvar_write(handle, NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_enum_get_info((MPI_T_enum)handle, &count, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_OK(MPI_T_cvar_handle_free(&handle));
  EXPECT_EQ(MPI_T_cvar_read(freed, &count), MPI_T_ERR_INVALID_HANDLE);
  handle = cvar_of("WEFT_LAUNCH", &count);
  char text[2000] = "";
  EXPECT(count > 1 && count <= (int)sizeof text);
  EXPECT_EQ(MPI_T_cvar_write(handle, text), MPI_T_ERR_CVAR_SET_NEVER);
  EXPECT_OK(MPI_T_cvar_handle_free(&handle));
}

static void write_before_init(void) {
  int count, item;
  MPI_Count number = kBound, was = -1;
  MPI_T_cvar_handle bound = cvar_of("WEFT_UNEXPECTED_MAX_BYTES", &count);
  EXPECT_OK(MPI_T_cvar_read(bound, &was));
  EXPECT(was != kBound);
  EXPECT_OK(MPI_T_cvar_write(bound, &number));  // what unexpected_bound() shows to have effect
  number = -5;
  EXPECT_EQ(MPI_T_cvar_write(bound, &number), MPI_T_ERR_INVALID);
  EXPECT_OK(MPI_T_cvar_read(bound, &number));
  EXPECT_EQ(number, kBound);
  EXPECT_OK(MPI_T_cvar_handle_free(&bound));
  MPI_T_cvar_handle copy = cvar_of("WEFT_DIRECT_COPY", &count);
  EXPECT_EQ(count, 1);
  item = 2;
  EXPECT_EQ(MPI_T_cvar_write(copy, &item), MPI_T_ERR_INVALID);
  item = -1;
  EXPECT_EQ(MPI_T_cvar_write(copy, &item), MPI_T_ERR_INVALID);
  item = 0;
  EXPECT_OK(MPI_T_cvar_write(copy, &item));
  item = 1;
  EXPECT_OK(MPI_T_cvar_write(copy, &item));
  item = -1;
  EXPECT_OK(MPI_T_cvar_read(copy, &item));
  EXPECT_EQ(item, 1);
  EXPECT_OK(MPI_T_cvar_handle_free(&copy));
  MPI_T_cvar_handle picks = cvar_of("WEFT_COLL_ALGORITHMS", &count);
  char* text = allocate((size_t)count);
  memset(text, 'x', (size_t)count);
  EXPECT_EQ(MPI_T_cvar_write(picks, text), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_cvar_write(picks, "barrier=none"), MPI_T_ERR_INVALID);
  EXPECT_OK(MPI_T_cvar_write(picks, "barrier=dissemination"));
  EXPECT_OK(MPI_T_cvar_read(picks, text));
  EXPECT(strcmp(text, "barrier=dissemination") == 0);
  free(text);
  EXPECT_OK(MPI_T_cvar_handle_free(&picks));
}

static void write_later(void) {
  int count, item = -1, was = -1;
  MPI_Count number = 1;
  MPI_T_cvar_handle bound = cvar_of("WEFT_UNEXPECTED_MAX_BYTES", &count);
  EXPECT_EQ(MPI_T_cvar_write(bound, &number), MPI_T_ERR_CVAR_SET_NEVER);
  EXPECT_OK(MPI_T_cvar_read(bound, &number));
  EXPECT_EQ(number, kBound);
  EXPECT_OK(MPI_T_cvar_handle_free(&bound));
  MPI_T_cvar_handle log = cvar_of("WEFT_LOG", &count);
  EXPECT_OK(MPI_T_cvar_read(log, &was));
  item = 0;
  EXPECT_OK(MPI_T_cvar_write(log, &item));
  item = 99;
  EXPECT_EQ(MPI_T_cvar_write(log, &item), MPI_T_ERR_INVALID);
  EXPECT_OK(MPI_T_cvar_read(log, &item));
  EXPECT_EQ(item, 0);
  EXPECT_OK(MPI_T_cvar_write(log, &was));
  EXPECT_OK(MPI_T_cvar_handle_free(&log));
}

// ---- categories ----

static void check_categories(void) {
  int num = 0, num_cvars = 0, stamp = -1, again = -2, found[200] = {0};
  EXPECT_OK(MPI_T_category_get_num(&num));
  EXPECT_OK(MPI_T_cvar_get_num(&num_cvars));
  EXPECT(num > 3 && num_cvars < 200);
  int below = 0, sum_pvars = 0, sum_events = 0;
  for (int i = 0; i < num; ++i) {
    char name[64], desc[100];
    int name_len = sizeof name, desc_len = sizeof desc, cvars, pvars, events, categories, index;
    int indices[200];
    EXPECT_OK(
        MPI_T_category_get_info(i, name, &name_len, desc, &desc_len, &cvars, &pvars, &categories));
    EXPECT_OK(MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    EXPECT_OK(MPI_T_category_get_index(name, &index));
    EXPECT_EQ(index, i);
    EXPECT_OK(MPI_T_category_get_num_events(i, &events));
    EXPECT_OK(MPI_T_category_get_cvars(i, 200, indices));
    for (int c = 0; c < cvars; ++c) found[indices[c]]++;
    indices[1] = -7;
    EXPECT_OK(MPI_T_category_get_cvars(i, 1, indices));
    EXPECT_EQ(indices[1], -7);
    EXPECT_OK(MPI_T_category_get_cvars(i, 0, NULL));
    EXPECT_OK(MPI_T_category_get_pvars(i, 200, indices));
    EXPECT_OK(MPI_T_category_get_events(i, 200, indices));
    EXPECT_OK(MPI_T_category_get_categories(i, 200, indices));
    for (int c = 0; c < categories; ++c) EXPECT(indices[c] > 0 && indices[c] < num);
    below += categories;
    sum_pvars += pvars;
    sum_events += events;
  }
  for (int c = 0; c < num_cvars; ++c) EXPECT_EQ(found[c], 1);
  EXPECT_EQ(below, num - 1);
  int pvars = 0, events = 0;
  EXPECT_OK(MPI_T_pvar_get_num(&pvars));
  EXPECT_OK(MPI_T_event_get_num(&events));
  EXPECT_EQ(sum_pvars, pvars);
  EXPECT_EQ(sum_events, events);
  EXPECT_OK(MPI_T_category_changed(&stamp));
  EXPECT_OK(MPI_T_category_changed(&again));
  EXPECT_EQ(stamp, again);
  EXPECT_EQ(MPI_T_category_changed(NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_category_get_num(NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_category_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_category_get_cvars(-1, 0, NULL), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_category_get_pvars(num, 0, NULL), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_category_get_events(num, 0, NULL), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_category_get_categories(num, 0, NULL), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_category_get_num_events(num, &stamp), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_category_get_cvars(1, 3, NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_category_get_index("none", &stamp), MPI_T_ERR_INVALID_NAME);
  EXPECT_EQ(MPI_T_category_get_index(NULL, &stamp), MPI_T_ERR_INVALID);
}

// ---- performance variables ----

static MPI_T_pvar_session session;

static MPI_T_pvar_handle pvar_of(const char* name, int var_class, void* object, int* count) {
  MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
  int index = -1;
  EXPECT_OK(MPI_T_pvar_get_index(name, var_class, &index));
  EXPECT_OK(MPI_T_pvar_handle_alloc(session, index, object, &handle, count));
  return handle;
}

static unsigned long long value_of(MPI_T_pvar_handle handle) {
  unsigned long long value = ~0ull;
  EXPECT_OK(MPI_T_pvar_read(session, handle, &value));
  return value;
}

static void check_pvar_infos(void) {
  int num = 0;
  EXPECT_OK(MPI_T_pvar_get_num(&num));
  for (int i = 0; i < num; ++i) {
    char name[64] = "", desc[300] = "";
    int name_len = sizeof name, desc_len = sizeof desc, verbosity, var_class, bind, readonly,
        continuous, atomic, index = -1;
    MPI_Datatype type;
    MPI_T_enum enumtype;
    EXPECT_OK(MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &var_class, &type, &enumtype,
                                  desc, &desc_len, &bind, &readonly, &continuous, &atomic));
    EXPECT_EQ(name_len, strlen(name) + 1);
    EXPECT_EQ(desc_len, strlen(desc) + 1);
    EXPECT(type == MPI_UNSIGNED_LONG_LONG && enumtype == MPI_T_ENUM_NULL);
    EXPECT_OK(MPI_T_pvar_get_index(name, var_class, &index));
    EXPECT_EQ(index, i);
    EXPECT_EQ(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_TIMER, &index), MPI_T_ERR_INVALID_NAME);
    EXPECT_OK(MPI_T_pvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                  NULL, NULL));
  }
  EXPECT_EQ(MPI_T_pvar_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                NULL, NULL),
            MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_pvar_get_num(NULL), MPI_T_ERR_INVALID);
}

static void check_pvar_errors(void) {
  int count, index = -1, bound = -1;
  unsigned long long value = 0;
  MPI_T_pvar_session other, none = MPI_T_PVAR_SESSION_NULL;
  MPI_T_pvar_handle null_handle = MPI_T_PVAR_HANDLE_NULL, handle;
  EXPECT_EQ(MPI_T_pvar_session_create(NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_pvar_session_free(NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_pvar_session_free(&none), MPI_T_ERR_INVALID_SESSION);
  EXPECT_OK(MPI_T_pvar_get_index("sent", MPI_T_PVAR_CLASS_COUNTER, &index));
  EXPECT_OK(MPI_T_pvar_get_index("sent_by_member", MPI_T_PVAR_CLASS_COUNTER, &bound));
  EXPECT_EQ(MPI_T_pvar_handle_alloc(none, index, NULL, &handle, &count), MPI_T_ERR_INVALID_SESSION);
  EXPECT_EQ(MPI_T_pvar_handle_alloc(session, 9999, NULL, &handle, &count), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_pvar_handle_alloc(session, index, NULL, NULL, &count), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_pvar_handle_alloc(session, bound, NULL, &handle, &count), MPI_T_ERR_INVALID);
  MPI_Comm no_comm = MPI_COMM_NULL;
  EXPECT_EQ(MPI_T_pvar_handle_alloc(session, bound, &no_comm, &handle, &count), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_pvar_read(session, null_handle, &value), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_pvar_handle_free(session, &null_handle), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_pvar_handle_free(session, NULL), MPI_T_ERR_INVALID);
  handle = pvar_of("sent", MPI_T_PVAR_CLASS_COUNTER, NULL, &count);
  EXPECT_EQ(MPI_T_pvar_start(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
  EXPECT_EQ(MPI_T_pvar_stop(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
  EXPECT_EQ(MPI_T_pvar_write(session, handle, &value), MPI_T_ERR_PVAR_NO_WRITE);
  EXPECT_EQ(MPI_T_pvar_reset(session, handle), MPI_T_ERR_PVAR_NO_WRITE);
  EXPECT_EQ(MPI_T_pvar_readreset(session, handle, &value), MPI_T_ERR_PVAR_NO_ATOMIC);
  EXPECT_EQ(MPI_T_pvar_read(session, handle, NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, &value), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_pvar_write(session, MPI_T_PVAR_ALL_HANDLES, &value), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
  EXPECT_OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
  EXPECT_OK(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES));
  EXPECT_EQ(MPI_T_pvar_start(none, MPI_T_PVAR_ALL_HANDLES), MPI_T_ERR_INVALID_SESSION);
  EXPECT_OK(MPI_T_pvar_session_create(&other));
  EXPECT_EQ(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_pvar_handle_free(other, &handle), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_OK(MPI_T_pvar_session_free(&other));
  EXPECT(other == MPI_T_PVAR_SESSION_NULL);
  EXPECT_OK(MPI_T_pvar_handle_free(session, &handle));
  EXPECT(handle == MPI_T_PVAR_HANDLE_NULL);
}

// Each sends kMany messages to the next.
static void counted(void) {
  if (size == 1) return;
  int count = 0;
  MPI_Comm all = MPI_COMM_WORLD;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_T_pvar_handle sent = pvar_of("sent", MPI_T_PVAR_CLASS_COUNTER, NULL, &count);
  EXPECT_EQ(count, 1);
  MPI_T_pvar_handle bytes = pvar_of("sent_bytes", MPI_T_PVAR_CLASS_COUNTER, NULL, &count);
  MPI_T_pvar_handle in = pvar_of("received_bytes", MPI_T_PVAR_CLASS_COUNTER, NULL, &count);
  MPI_T_pvar_handle to = pvar_of("sent_by_member", MPI_T_PVAR_CLASS_COUNTER, &all, &count);
  EXPECT_EQ(count, size);
  MPI_T_pvar_handle from =
      pvar_of("received_bytes_by_member", MPI_T_PVAR_CLASS_COUNTER, &all, &count);
  unsigned long long* then = allocate(4 * (size_t)size * sizeof *then);
  unsigned long long *now = then + size, *from_then = now + size, *from_now = from_then + size;
  const unsigned long long sent_then = value_of(sent), bytes_then = value_of(bytes),
                           in_then = value_of(in);
  EXPECT_OK(MPI_T_pvar_read(session, to, then));
  EXPECT_OK(MPI_T_pvar_read(session, from, from_then));
  MPI_Barrier(MPI_COMM_WORLD);  // nobody's messages come before that was read
  char data[kShort] = {0}, got[kShort];
  for (int i = 0; i < kMany; ++i)
    MPI_Sendrecv(data, kShort, MPI_CHAR, next, 1, got, kShort, MPI_CHAR, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  EXPECT(value_of(sent) - sent_then >= kMany);
  EXPECT(value_of(bytes) - bytes_then >= kMany * kShort);
  EXPECT(value_of(in) - in_then >= kMany * kShort);
  EXPECT_OK(MPI_T_pvar_read(session, to, now));
  EXPECT_OK(MPI_T_pvar_read(session, from, from_now));
  EXPECT(now[next] - then[next] >= kMany);
  EXPECT(from_now[before] - from_then[before] >= kMany * kShort);
  unsigned long long sum = 0;
  for (int i = 0; i < size; ++i) sum += now[i];
  EXPECT(sum <= value_of(sent));
  free(then);
  EXPECT_OK(MPI_T_pvar_handle_free(session, &sent));
  // The others end with the session.
}

// Sums the variables of one collective, by whatever algorithms.
static unsigned long long sum_of(const char* collective, const char* what) {
  int num = 0;
  unsigned long long sum = 0;
  EXPECT_OK(MPI_T_pvar_get_num(&num));
  for (int i = 0; i < num; ++i) {
    char name[64] = "";
    int length = sizeof name, var_class, count;
    MPI_T_pvar_handle handle;
    EXPECT_OK(MPI_T_pvar_get_info(i, name, &length, NULL, &var_class, NULL, NULL, NULL, NULL, NULL,
                                  NULL, NULL, NULL));
    if (strncmp(name, collective, strlen(collective)) != 0 || strstr(name, what) == NULL) continue;
    EXPECT_EQ(var_class, MPI_T_PVAR_CLASS_COUNTER);
    EXPECT_OK(MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count));
    sum += value_of(handle);
    EXPECT_OK(MPI_T_pvar_handle_free(session, &handle));
  }
  return sum;
}

// Blocking calls, and each start of others.
static void algorithms(void) {
  enum { kLength = 1000, kBytes = kLength * sizeof(int) };
  const unsigned long long some = size > 1, reduced = sum_of("allreduce_", "_calls"),
                           bytes = sum_of("allreduce_", "_bytes"),
                           by_table = sum_of("barrier_dissemination", "_calls"),
                           joined = sum_of("barrier_", "_calls"),
                           gathered = sum_of("gather_", "_calls"),
                           exchanged = sum_of("alltoall_", "_calls");
  int *in = allocate(kBytes), *out = allocate(kBytes), one = 1, *all = allocate((size_t)size * 4),
      *counts = allocate((size_t)size * 4), *places = allocate((size_t)size * 4);
  memset(in, 0, kBytes);
  for (int i = 0; i < size; ++i) {
    counts[i] = 1;
    places[i] = i;
    all[i] = 0;
  }
  MPI_Request request;
  MPI_Allreduce(in, out, kLength, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Iallreduce(in, out, kLength, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allreduce_init(in, out, kLength, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Gatherv(&one, 1, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Igatherv(&one, 1, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Alltoallv(all, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  MPI_Ialltoallv(all, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD,
                 &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(sum_of("allreduce_", "_calls") - reduced, 4 * some);
  EXPECT_EQ(sum_of("allreduce_", "_bytes") - bytes, 4 * kBytes * some);
  // As write_before_init() wants it.
  EXPECT_EQ(sum_of("barrier_dissemination", "_calls") - by_table, 2 * some);
  EXPECT_EQ(sum_of("barrier_", "_calls") - joined, 2 * some);
  EXPECT_EQ(sum_of("gather_", "_calls") - gathered, 2 * some);
  EXPECT_EQ(sum_of("alltoall_", "_calls") - exchanged, 2 * some);
  free(in);
  free(out);
  free(all);
  free(counts);
  free(places);
}

// Rank 0 sends five messages that rank 1 receives late.
static void waiting_unmatched(void) {
  enum { kWaiting = 5 };
  int count;
  if (size == 1 || rank > 1) return;
  char byte = 0;
  if (rank == 0) {
    for (int i = 0; i < kWaiting; ++i) MPI_Send(&byte, 1, MPI_CHAR, 1, 10 + i, MPI_COMM_WORLD);
    return;
  }
  unsigned long long value = 0;
  MPI_T_pvar_handle level = pvar_of("unexpected", MPI_T_PVAR_CLASS_LEVEL, NULL, &count);
  MPI_T_pvar_handle peak = pvar_of("unexpected_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK, NULL, &count);
  MPI_T_pvar_handle asleep =
      pvar_of("unexpected_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK, NULL, &count);
  EXPECT_OK(MPI_T_pvar_start(session, peak));
  EXPECT_EQ(MPI_T_pvar_start(session, peak), MPI_T_ERR_PVAR_NO_STARTSTOP);
  EXPECT_EQ(MPI_T_pvar_start(session, level), MPI_T_ERR_PVAR_NO_STARTSTOP);
  EXPECT_EQ(MPI_T_pvar_stop(session, asleep), MPI_T_ERR_PVAR_NO_STARTSTOP);
  MPI_Probe(0, 10 + kWaiting - 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const unsigned long long most = value_of(level);
  EXPECT(most >= kWaiting);
  EXPECT_EQ(value_of(peak), most);
  for (int i = 0; i < kWaiting; ++i)
    MPI_Recv(&byte, 1, MPI_CHAR, 0, 10 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  EXPECT(value_of(level) <= most - kWaiting + 1);
  EXPECT(value_of(peak) >= most);
  EXPECT_EQ(value_of(asleep), 0);
  EXPECT_OK(MPI_T_pvar_readreset(session, peak, &value));
  EXPECT(value >= most);
  EXPECT(value_of(peak) < most);
  value = 1000;
  EXPECT_OK(MPI_T_pvar_write(session, peak, &value));
  EXPECT_EQ(value_of(peak), 1000);
  EXPECT_OK(MPI_T_pvar_stop(session, peak));
  EXPECT_EQ(MPI_T_pvar_stop(session, peak), MPI_T_ERR_PVAR_NO_STARTSTOP);
  EXPECT_OK(MPI_T_pvar_reset(session, peak));
  EXPECT(value_of(peak) < 1000);
  EXPECT_OK(MPI_T_pvar_handle_free(session, &level));
  EXPECT_OK(MPI_T_pvar_handle_free(session, &peak));
}

// ---- events ----

struct Seen {
  int num, rank;
  MPI_Count bytes;
  MPI_T_cb_safety safety;
  int num_freed;
};

static void on_event(MPI_T_event_instance instance, MPI_T_event_registration registration,
                     MPI_T_cb_safety safety, void* user_data) {
  struct Seen* seen = user_data;
  struct {
    int rank, none;
    MPI_Count bytes;
  } copy = {-1, 0, -1};
  MPI_Count then = 0, now = 0;
  int source = -1, first = -1;
  (void)registration;
  EXPECT_OK(MPI_T_event_copy(instance, &copy));
  EXPECT_OK(MPI_T_event_read(instance, 0, &first));
  EXPECT_EQ(first, copy.rank);
  EXPECT_EQ(MPI_T_event_read(instance, 0, NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_event_read(instance, 9, &copy), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_event_read(instance, -1, &copy), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_event_copy(instance, NULL), MPI_T_ERR_INVALID);
  EXPECT_OK(MPI_T_event_get_timestamp(instance, &then));
  EXPECT_OK(MPI_T_event_get_source(instance, &source));
  EXPECT_OK(MPI_T_source_get_timestamp(source, &now));
  EXPECT(then > 0 && now >= then);
  seen->num++;
  seen->rank = copy.rank;
  seen->bytes = copy.bytes;
  seen->safety = safety;
}
static MPI_Count num_dropped;
static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                       MPI_T_cb_safety safety, void* user_data) {
  (void)registration, (void)safety;
  EXPECT_EQ(source, 0);
  EXPECT(user_data == NULL);  // no callback was registered that had any
  num_dropped += count;
}
static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety,
                    void* user_data) {
  (void)registration, (void)safety;
  ((struct Seen*)user_data)->num_freed++;
}

static MPI_T_event_registration registered(const char* name) {
  MPI_T_event_registration registration = NULL;
  int index = -1;
  EXPECT_OK(MPI_T_event_get_index(name, &index));
  EXPECT_OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration));
  return registration;
}

static void check_event_infos(void) {
  int num = 0, num_sources = 0;
  EXPECT_OK(MPI_T_event_get_num(&num));
  EXPECT(num >= 3);
  for (int i = 0; i < num; ++i) {
    char name[64], desc[300];
    int name_len = sizeof name, desc_len = sizeof desc, verbosity, elements = 0, bind, index = -1,
        items = -1;
    MPI_Datatype types[8];
    MPI_Aint displacements[8];
    MPI_T_enum enumtype;
    MPI_Info info = MPI_INFO_NULL;
    EXPECT_OK(MPI_T_event_get_info(i, name, &name_len, &verbosity, NULL, NULL, &elements, &enumtype,
                                   &info, desc, &desc_len, &bind));
    EXPECT(elements >= 1 && elements <= 8 && info != MPI_INFO_NULL);
    EXPECT_OK(MPI_Info_free(&info));
    EXPECT_OK(MPI_T_event_get_info(i, NULL, NULL, NULL, types, displacements, &elements, NULL, NULL,
                                   NULL, NULL, NULL));
    EXPECT_EQ(displacements[0], 0);
    EXPECT(types[0] == MPI_INT || types[0] == MPI_COUNT);
    EXPECT_OK(MPI_T_enum_get_info(enumtype, &items, NULL, NULL));
    EXPECT_EQ(items, elements);
    EXPECT_OK(MPI_T_event_get_index(name, &index));
    EXPECT_EQ(index, i);
  }
  EXPECT_EQ(
      MPI_T_event_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      MPI_T_ERR_INVALID_INDEX);
  EXPECT_OK(MPI_T_source_get_num(&num_sources));
  for (int i = 0; i < num_sources; ++i) {
    char name[64];
    int name_len = sizeof name;
    MPI_T_source_order order;
    MPI_Count ticks = 0, most = 0, now = 0;
    MPI_Info info;
    EXPECT_OK(MPI_T_source_get_info(i, name, &name_len, NULL, NULL, &order, &ticks, &most, &info));
    EXPECT_OK(MPI_Info_free(&info));
    EXPECT(ticks > 0 && most > 0);
    EXPECT(order == MPI_T_SOURCE_ORDERED || order == MPI_T_SOURCE_UNORDERED);
    EXPECT_OK(MPI_T_source_get_timestamp(i, &now));
    EXPECT(now > 0);
    EXPECT_OK(MPI_T_source_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
  }
  MPI_Count now;
  EXPECT_EQ(MPI_T_source_get_timestamp(num_sources, &now), MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_source_get_timestamp(0, NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_source_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_source_get_num(NULL), MPI_T_ERR_INVALID);
}

static void check_event_errors(void) {
  MPI_T_event_registration none = NULL, registration;
  MPI_T_event_instance no_instance = NULL;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Count count;
  struct Seen seen = {0};
  int number;
  EXPECT_EQ(MPI_T_event_get_num(NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_event_get_index("none", &number), MPI_T_ERR_INVALID_NAME);
  EXPECT_EQ(MPI_T_event_get_index(NULL, &number), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_event_handle_alloc(-1, NULL, MPI_INFO_NULL, &registration),
            MPI_T_ERR_INVALID_INDEX);
  EXPECT_EQ(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, NULL), MPI_T_ERR_INVALID);
  EXPECT_EQ(MPI_T_event_handle_free(none, NULL, on_free), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_handle_set_info(none, MPI_INFO_NULL), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_handle_get_info(none, &info), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_register_callback(none, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL),
            MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_callback_set_info(none, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL),
            MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_callback_get_info(none, MPI_T_CB_REQUIRE_NONE, &info),
            MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_set_dropped_handler(none, on_dropped), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_read(no_instance, 0, &number), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_copy(no_instance, &number), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_get_timestamp(no_instance, &count), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_event_get_source(no_instance, &number), MPI_T_ERR_INVALID_HANDLE);
  registration = registered("peer_lost");
  EXPECT_EQ(MPI_T_event_register_callback(registration, (MPI_T_cb_safety)7, MPI_INFO_NULL, NULL,
                                          on_event),
            MPI_T_ERR_INVALID);
  MPI_Info hints;
  char value[10] = "";
  int length = sizeof value, flag = 0;
  EXPECT_OK(MPI_Info_create(&hints));
  EXPECT_OK(MPI_Info_set(hints, "color", "blue"));
  EXPECT_OK(MPI_T_event_handle_set_info(registration, hints));
  EXPECT_OK(MPI_T_event_handle_get_info(registration, &info));
  EXPECT_OK(MPI_Info_get_string(info, "color", &length, value, &flag));
  EXPECT(flag && strcmp(value, "blue") == 0);
  EXPECT_OK(MPI_Info_free(&info));
  EXPECT_OK(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, hints));
  EXPECT_OK(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
  EXPECT_OK(MPI_Info_free(&info));
  EXPECT_OK(MPI_Info_free(&hints));
  EXPECT_OK(MPI_T_event_handle_free(registration, &seen, on_free));
  EXPECT_EQ(seen.num_freed, 1);
  EXPECT_EQ(MPI_T_event_handle_free(registration, &seen, on_free), MPI_T_ERR_INVALID_HANDLE);
}

// Rank 0 sends more than rank 1 keeps; the bound is what write_before_init() wrote.
static void unexpected_bound(void) {
  enum { kBytes = 1024, kNum = 2 * kBound / kBytes };
  if (size == 1 || rank > 1) return;
  static char data[kNum][kBytes];
  if (rank == 0) {
    MPI_Request requests[kNum];
    MPI_Recv(NULL, 0, MPI_CHAR, 1, kNum, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // it is ready
    for (int i = 0; i < kNum; ++i)
      MPI_Isend(data[i], kBytes, MPI_CHAR, 1, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(kNum, requests, MPI_STATUSES_IGNORE);
    return;
  }
  const MPI_T_cb_safety required =
      threaded ? MPI_T_CB_REQUIRE_THREAD_SAFE : MPI_T_CB_REQUIRE_MPI_RESTRICTED;
  struct Seen at_once = {0}, late = {0}, unused = {0};
  MPI_T_event_registration now = registered("unexpected_bound"),
                           later = registered("unexpected_bound"),
                           never = registered("unexpected_bound");
  EXPECT_OK(
      MPI_T_event_register_callback(now, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &unused, on_event));
  EXPECT_OK(MPI_T_event_register_callback(now, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE, MPI_INFO_NULL,
                                          &at_once, on_event));
  EXPECT_OK(
      MPI_T_event_register_callback(later, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &late, on_event));
  EXPECT_OK(MPI_T_event_set_dropped_handler(never, on_dropped));
  MPI_Send(NULL, 0, MPI_CHAR, 0, kNum, MPI_COMM_WORLD);
  MPI_Probe(0, kNum - 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  EXPECT_EQ(at_once.num, 1);
  EXPECT_EQ(at_once.rank, 0);
  EXPECT(at_once.bytes > kBound && at_once.bytes < kBound + 4 * kBytes);
  EXPECT_EQ(at_once.safety, required);
  EXPECT_EQ(late.num, 0);
  EXPECT_EQ(num_dropped, 1);
  int num;
  EXPECT_OK(MPI_T_event_get_num(&num));  // any function will do
  EXPECT_EQ(late.num, 1);
  EXPECT_EQ(late.rank, 0);
  EXPECT_EQ(late.safety, MPI_T_CB_REQUIRE_NONE);
  EXPECT_EQ(unused.num, 0);
  for (int i = 0; i < kNum; ++i)
    MPI_Recv(data[i], kBytes, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  EXPECT_OK(MPI_T_event_handle_free(now, &at_once, on_free));
  EXPECT_EQ(at_once.num_freed, 1);
  EXPECT_OK(MPI_T_event_handle_free(later, NULL, NULL));
  EXPECT_OK(MPI_T_event_handle_free(never, NULL, NULL));
}

static MPI_Count shared_address, shared_bytes;
static void on_shared(MPI_T_event_instance instance, MPI_T_event_registration registration,
                      MPI_T_cb_safety safety, void* user_data) {
  (void)registration, (void)safety;
  MPI_Count address = 0;
  EXPECT_OK(MPI_T_event_read(instance, 0, &address));
  if (address != *(MPI_Count*)user_data) return;
  shared_address = address;
  EXPECT_OK(MPI_T_event_read(instance, 1, &shared_bytes));
}

static void memory_shared(void) {
  static int words[100];
  MPI_Win window;
  MPI_Count wanted = (MPI_Count)(intptr_t)words;
  if (size == 1) return;
  MPI_T_event_registration registration = registered("memory_shared");
  EXPECT_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL,
                                          &wanted, on_shared));
  MPI_Win_create(words, sizeof words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  EXPECT(shared_address == wanted);
  EXPECT_EQ(shared_bytes, sizeof words);
  MPI_Win_free(&window);
  EXPECT_OK(MPI_T_event_handle_free(registration, NULL, NULL));
}

// ---- threads that look on ----

static void* look_on(void* unused) {
  (void)unused;
  for (int round = 0; round < 200; ++round) {
    int provided, index, count, item;
    unsigned long long value;
    MPI_T_pvar_session own;
    MPI_T_pvar_handle sent, peak;
    MPI_T_cvar_handle log;
    EXPECT_OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
    EXPECT_OK(MPI_T_pvar_session_create(&own));
    EXPECT_OK(MPI_T_pvar_get_index("sent", MPI_T_PVAR_CLASS_COUNTER, &index));
    EXPECT_OK(MPI_T_pvar_handle_alloc(own, index, NULL, &sent, &count));
    EXPECT_OK(MPI_T_pvar_get_index("unexpected_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK, &index));
    EXPECT_OK(MPI_T_pvar_handle_alloc(own, index, NULL, &peak, &count));
    EXPECT_OK(MPI_T_pvar_start(own, MPI_T_PVAR_ALL_HANDLES));
    EXPECT_OK(MPI_T_pvar_read(own, sent, &value));
    EXPECT_OK(MPI_T_pvar_readreset(own, peak, &value));
    EXPECT_OK(MPI_T_pvar_session_free(&own));
    EXPECT_OK(MPI_T_cvar_get_index("WEFT_LOG", &index));
    EXPECT_OK(MPI_T_cvar_handle_alloc(index, NULL, &log, &count));
    EXPECT_OK(MPI_T_cvar_read(log, &item));
    EXPECT_OK(MPI_T_cvar_write(log, &item));
    EXPECT_OK(MPI_T_cvar_handle_free(&log));
    EXPECT_OK(MPI_T_finalize());
  }
  return NULL;
}

static void beside_threads(void) {
  enum { kThreads = 3 };
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, look_on, NULL);
  counted();
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

// ---- all of it ----

static void check_not_initialized(void) {
  int number;
  MPI_T_cvar_handle cvar;
  MPI_T_event_registration registration;
  EXPECT_EQ(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_cvar_handle_alloc(0, NULL, &cvar, &number), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_pvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_pvar_session_create(&session), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_category_changed(&number), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_event_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &registration),
            MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_source_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  EXPECT_EQ(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &number, NULL, NULL), MPI_T_ERR_NOT_INITIALIZED);
}

static int die(int argc, char** argv) {
  struct Seen seen = {.rank = -1};
  int provided, byte = 0;
  EXPECT_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_T_event_registration registration = registered("peer_lost");
  EXPECT_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL,
                                          &seen, on_event));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) raise(SIGKILL);
  EXPECT_CLASS(MPI_Recv(&byte, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
               MPIX_ERR_PROC_FAILED);
  EXPECT_EQ(seen.num, 1);
  EXPECT_EQ(seen.rank, 1);
  int count;
  EXPECT_OK(MPI_T_pvar_session_create(&session));
  MPI_T_pvar_handle lost = pvar_of("lost_peers", MPI_T_PVAR_CLASS_COUNTER, NULL, &count);
  EXPECT(value_of(lost) >= 1);
  EXPECT_OK(MPI_T_event_handle_free(registration, &seen, on_free));
  EXPECT_OK(MPI_T_finalize());
  return end();
}

int main(int argc, char** argv) {
  int provided = -1, count;
  if (argc > 1 && strcmp(argv[1], "death") == 0) return die(argc, argv);
  threaded = argc > 1 && strcmp(argv[1], "threads") == 0;
  check_not_initialized();
  EXPECT_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  EXPECT(provided >= MPI_THREAD_SINGLE);
  EXPECT_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, NULL));
  EXPECT_OK(MPI_T_finalize());
  check_cvar_infos();
  check_cvar_errors();
  write_before_init();
  check_categories();
  check_pvar_infos();
  check_event_infos();
  check_event_errors();
  EXPECT_OK(MPI_T_pvar_session_create(&session));
  check_pvar_errors();
  MPI_T_pvar_handle sent = pvar_of("sent", MPI_T_PVAR_CLASS_COUNTER, NULL, &count);
  EXPECT_EQ(value_of(sent), 0);
  if (threaded)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  else
    MPI_Init(&argc, &argv);
  learn_place();
  check_cvar_infos();
  check_cvar_errors();
  write_later();
  check_pvar_errors();
  char text[MPI_MAX_ERROR_STRING];
  int length, class;
  EXPECT_OK(MPI_Error_class(MPI_T_ERR_CVAR_SET_NEVER, &class));
  EXPECT_EQ(class, MPI_T_ERR_CVAR_SET_NEVER);
  EXPECT_OK(MPI_Error_string(MPI_T_ERR_CVAR_SET_NEVER, text, &length));
  counted();
  algorithms();
  MPI_Barrier(MPI_COMM_WORLD);
  waiting_unmatched();
  MPI_Barrier(MPI_COMM_WORLD);
  unexpected_bound();
  MPI_Barrier(MPI_COMM_WORLD);
  memory_shared();
  beside_threads();
  const unsigned long long last = value_of(sent);
  const int failures = end();
  EXPECT(value_of(sent) >= last);
  write_later();
  check_cvar_infos();
  check_pvar_errors();
  check_event_errors();
  EXPECT_OK(MPI_T_finalize());
  check_not_initialized();
  EXPECT_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  unsigned long long value;
  EXPECT_EQ(MPI_T_pvar_read(session, sent, &value), MPI_T_ERR_INVALID_SESSION);
  EXPECT_OK(MPI_T_finalize());
  return failures || num_failures ? 1 : 0;
}
