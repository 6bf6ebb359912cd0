/* mpi-ext.h of Weft: what it has beyond MPI 5.0: MPI's fault tolerance (User Level Failure
 * Mitigation), by the names of the MPI Forum's proposals (MPI_) and by those of Open MPI and MPICH
 * (MPIX_), which do the same. docs/use/fault-tolerance.md explains its use.
 *
 * A process that dies is told by errors of class MPIX_ERR_PROC_FAILED, by the error handler of the
 * communicator, window or file. Unless a function says otherwise it returns MPI_SUCCESS,
 * MPI_ERR_COMM, MPI_ERR_WIN or MPI_ERR_FILE for what is no communicator, window or file,
 * MPI_ERR_ARG for a null pointer or a negative number, or MPI_ERR_NO_MEM, and any thread may call
 * it.
 */
#ifndef MPI_EXT_H_INCLUDED
#define MPI_EXT_H_INCLUDED

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What programs test for. */
#define MPIX_HAVE_FAULT_TOLERANCE 1
#define OMPI_HAVE_MPI_EXT 1
#define OMPI_HAVE_MPI_EXT_FTMPI 1
#define OMPI_HAVE_MPIX_COMM_ISHRINK 1

/* A predefined attribute of MPI_COMM_WORLD, an int: 1, as this library tolerates failures. */
#define MPIX_FT 599

/* Error classes. A process that is needed has died, or has left. */
#define MPIX_ERR_PROC_FAILED 16001
/* A nonblocking receive from any source waits on, but a process that may be its sender has died,
 * which the user has not acknowledged. The request stays active. */
#define MPIX_ERR_PROC_FAILED_PENDING 16002
/* The communicator, window or file is revoked. */
#define MPIX_ERR_REVOKED 16003
#define MPI_ERR_PROC_FAILED MPIX_ERR_PROC_FAILED
#define MPI_ERR_PROC_FAILED_PENDING MPIX_ERR_PROC_FAILED_PENDING
#define MPI_ERR_REVOKED MPIX_ERR_REVOKED

/* Revokes a communicator at all members: pending operations on it end with MPIX_ERR_REVOKED, at
 * members that wait in MPI too, and so do all later ones but MPI_Comm_free and the functions of
 * this header. Local: it waits for nobody. */
int MPI_Comm_revoke(MPI_Comm comm);
/* Whether this process knows that the communicator is revoked. Local. */
int MPI_Comm_is_revoked(MPI_Comm comm, int* flag);

/* The members that this process knows to have failed, in the order in which it learned of them; of
 * an intercommunicator those of both groups. The group is the caller's to free. Local. */
int MPI_Comm_get_failed(MPI_Comm comm, MPI_Group* failedgrp);
/* Acknowledges the first num_to_ack of them, or all if there are fewer: receives from any source
 * wait for the other members again. num_acked: how many are acknowledged now. Local. */
int MPI_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
/* The same, all at once, and the group of those acknowledged. Local. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failedgrp);

/* Collective, also on a revoked communicator: the living members agree on the bitwise AND of the
 * flags they bring. All return the same: MPIX_ERR_PROC_FAILED if a member has failed and some
 * member has not acknowledged it (flag has its value all the same); MPI_ERR_OTHER if the members
 * made different calls. */
int MPI_Comm_agree(MPI_Comm comm, int* flag);
int MPI_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
/* Collective, also on a revoked communicator: makes a communicator of the members that have not
 * failed, in the order of their ranks. It is the same at all of them. MPI_ERR_COMM for an
 * intercommunicator. */
int MPI_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int MPI_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);

/* The same for windows. A revoked window has no epochs any more: every wait, and all operations and
 * requests under way, end at every member with MPIX_ERR_REVOKED (what they wrote or read is
 * undefined), and so do all later calls but local queries, MPI_Win_free, which waits for nobody
 * then, and the functions of this header. The revocation of a communicator revokes no windows. */
int MPI_Win_revoke(MPI_Win win);
int MPI_Win_is_revoked(MPI_Win win, int* flag);
int MPI_Win_get_failed(MPI_Win win, MPI_Group* failedgrp);
int MPI_Win_ack_failed(MPI_Win win, int num_to_ack, int* num_acked);
/* The same for files: collective calls and the shared pointer's end with MPIX_ERR_REVOKED, and all
 * later ones but local queries, MPI_File_close, which waits for nobody then, and the functions of
 * this header. What a member reads or writes by itself may end in order. */
int MPI_File_revoke(MPI_File fh);
int MPI_File_is_revoked(MPI_File fh, int* flag);
int MPI_File_get_failed(MPI_File fh, MPI_Group* failedgrp);
int MPI_File_ack_failed(MPI_File fh, int num_to_ack, int* num_acked);

int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int* flag);
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failedgrp);
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
int MPIX_Comm_agree(MPI_Comm comm, int* flag);
int MPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);
int MPIX_Win_revoke(MPI_Win win);
int MPIX_Win_is_revoked(MPI_Win win, int* flag);
int MPIX_Win_get_failed(MPI_Win win, MPI_Group* failedgrp);
int MPIX_Win_ack_failed(MPI_Win win, int num_to_ack, int* num_acked);
int MPIX_File_revoke(MPI_File fh);
int MPIX_File_is_revoked(MPI_File fh, int* flag);
int MPIX_File_get_failed(MPI_File fh, MPI_Group* failedgrp);
int MPIX_File_ack_failed(MPI_File fh, int num_to_ack, int* num_acked);

/* The names for tools. */
int PMPI_Comm_revoke(MPI_Comm comm);
int PMPI_Comm_is_revoked(MPI_Comm comm, int* flag);
int PMPI_Comm_get_failed(MPI_Comm comm, MPI_Group* failedgrp);
int PMPI_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
int PMPI_Comm_agree(MPI_Comm comm, int* flag);
int PMPI_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
int PMPI_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int PMPI_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);
int PMPI_Win_revoke(MPI_Win win);
int PMPI_Win_is_revoked(MPI_Win win, int* flag);
int PMPI_Win_get_failed(MPI_Win win, MPI_Group* failedgrp);
int PMPI_Win_ack_failed(MPI_Win win, int num_to_ack, int* num_acked);
int PMPI_File_revoke(MPI_File fh);
int PMPI_File_is_revoked(MPI_File fh, int* flag);
int PMPI_File_get_failed(MPI_File fh, MPI_Group* failedgrp);
int PMPI_File_ack_failed(MPI_File fh, int num_to_ack, int* num_acked);
int PMPIX_Comm_revoke(MPI_Comm comm);
int PMPIX_Comm_is_revoked(MPI_Comm comm, int* flag);
int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failedgrp);
int PMPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
int PMPIX_Comm_failure_ack(MPI_Comm comm);
int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failedgrp);
int PMPIX_Comm_agree(MPI_Comm comm, int* flag);
int PMPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);
int PMPIX_Win_revoke(MPI_Win win);
int PMPIX_Win_is_revoked(MPI_Win win, int* flag);
int PMPIX_Win_get_failed(MPI_Win win, MPI_Group* failedgrp);
int PMPIX_Win_ack_failed(MPI_Win win, int num_to_ack, int* num_acked);
int PMPIX_File_revoke(MPI_File fh);
int PMPIX_File_is_revoked(MPI_File fh, int* flag);
int PMPIX_File_get_failed(MPI_File fh, MPI_Group* failedgrp);
int PMPIX_File_ack_failed(MPI_File fh, int num_to_ack, int* num_acked);

#ifdef __cplusplus
}
#endif

#endif /* MPI_EXT_H_INCLUDED */
