from . import codes as codes
from . import distances as distances
from . import elements as elements
from . import library as library
from . import matmul as matmul
from . import operations as operations
from . import prepared as prepared
