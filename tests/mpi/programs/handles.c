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
  MPI_Info_free(&info);
  MPI_Type_free(&type);
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  return end();
}
