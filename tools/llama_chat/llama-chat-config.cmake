# Target llama-chat, beside the llama.cpp it was built with (tools/llama_chat/CMakeLists.txt).
if(NOT TARGET llama)
  include(CMakeFindDependencyMacro)
  find_dependency(llama)
endif()
get_filename_component(llama_chat_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET llama-chat)
  add_library(llama-chat STATIC IMPORTED)
  set_target_properties(
    llama-chat PROPERTIES IMPORTED_LOCATION "${llama_chat_prefix}/lib/libllama-chat.a"
                          INTERFACE_INCLUDE_DIRECTORIES "${llama_chat_prefix}/include"
                          INTERFACE_LINK_LIBRARIES llama)
endif()
