// Handles as integers: toint and fromint give predefined handles their own constants and lead back
// to every handle; the Fortran forms c2f and f2c do the same.
#include "expect.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm comm;
  MPI_Group group;
  MPI_Datatype type;
  MPI_Info info;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_group(comm, &group);
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Info_create(&info);
#if MPI_VERSION >= 5
  EXPECT_EQ(MPI_Comm_toint(MPI_COMM_WORLD), 257);
  EXPECT_EQ(MPI_Comm_toint(MPI_COMM_NULL), 256);
  EXPECT(MPI_Comm_fromint(258) == MPI_COMM_SELF);
  EXPECT_EQ(MPI_Type_toint(MPI_INT), 0x209);
  EXPECT(MPI_Type_fromint(0x214) == MPI_DOUBLE);
  EXPECT_EQ(MPI_Op_toint(MPI_SUM), 0x21);
  EXPECT_EQ(MPI_Group_toint(MPI_GROUP_EMPTY), 0x109);
  EXPECT_EQ(MPI_Info_toint(MPI_INFO_ENV), 0x131);
  EXPECT_EQ(MPI_Errhandler_toint(MPI_ERRORS_RETURN), 0x143);
  EXPECT(MPI_Comm_fromint(MPI_Comm_toint(comm)) == comm);
  EXPECT(MPI_Group_fromint(MPI_Group_toint(group)) == group);
  EXPECT(MPI_Type_fromint(MPI_Type_toint(type)) == type);
  EXPECT(MPI_Info_fromint(MPI_Info_toint(info)) == info);
  // A user's handle is none of the predefined numbers.
  EXPECT(MPI_Comm_toint(comm) < 0 || MPI_Comm_toint(comm) > 1023);
  EXPECT(MPI_Type_toint(type) < 0 || MPI_Type_toint(type) > 1023);
#endif
  EXPECT(MPI_Comm_f2c(MPI_Comm_c2f(comm)) == comm);
  EXPECT(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  EXPECT(MPI_Group_f2c(MPI_Group_c2f(group)) == group);
  EXPECT(MPI_Type_f2c(MPI_Type_c2f(type)) == type);
  EXPECT(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
  EXPECT(MPI_Op_f2c(MPI_Op_c2f(MPI_MAXLOC)) == MPI_MAXLOC);
  EXPECT(MPI_Info_f2c(MPI_Info_c2f(info)) == info);
  EXPECT(MPI_Errhandler_f2c(MPI_Errhandler_c2f(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
  EXPECT(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
  EXPECT(MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NULL)) == MPI_MESSAGE_NULL);
  EXPECT(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
  EXPECT(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
#if MPI_VERSION >= 5
  EXPECT(MPI_Session_f2c(MPI_Session_c2f(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
#endif
  // A request and a message under way, completed by what their integers lead to.
  int out = rank + 3, in = -1;
  MPI_Request requests[2], found;
  MPI_Message message, taken;
  MPI_Isend(&out, 1, MPI_INT, rank, 1, comm, &requests[0]);
  MPI_Mprobe(rank, 1, comm, &message, MPI_STATUS_IGNORE);
  taken = MPI_Message_f2c(MPI_Message_c2f(message));
  EXPECT(taken == message);
  EXPECT_OK(MPI_Imrecv(&in, 1, MPI_INT, &taken, &requests[1]));
  for (int i = 0; i < 2; ++i) {
    found = MPI_Request_f2c(MPI_Request_c2f(requests[i]));
    EXPECT(found == requests[i]);
    EXPECT_OK(MPI_Wait(&found, MPI_STATUS_IGNORE));
  }
  EXPECT_EQ(in, rank + 3);
  MPI_Info_free(&info);
  MPI_Type_free(&type);
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  return end();
}
