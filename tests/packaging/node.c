// A program with Nodes, in C: opens one and prints whether it has an address.
#include <stdio.h>
#include <string.h>
#include <weft/node.h>

int main(void) {
  weft_node* node = NULL;
  char address[8192];
  if (weft_node_open("packaging", "a secret", "shm", 1000, 0, &node) != 0 ||
      weft_address(node, address, sizeof address) != 0) {
    fprintf(stderr, "%s\n", weft_error_text());
    return 1;
  }
  printf("%s\n", strncmp(address, "weft:", 5) == 0 ? "a Node" : address);
  weft_node_close(node);
  return 0;
}
